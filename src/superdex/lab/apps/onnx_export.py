"""A policy as an ONNX model, for controllers that run neither Python nor NumPy.

    difference = export_onnx(policy, (4,), Path("policy.onnx"))

Input `observation` (n, *observation_shape) float32, as the environment gives it; output `action`
(n, *action_shape) float32, deterministic, normalisation and clipping included; n is free. The graph
is written down node by node, which for a multilayer perceptron is shorter than to trace it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from superdex.lab.apps.atomic import replace_file
from superdex.lab.apps.extras import require_extra
from superdex.lab.gym.rollouts import GaussianMlpPolicy

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

__all__ = ["export_onnx", "require_onnx_extra"]

_OPSET, _IR_VERSION = 17, 8  # of 2022: runtimes on robots are not the newest
_NUM_CHECKED = 1000
_TOLERANCE = 1e-4


def require_onnx_extra() -> None:
    """Raise UserError unless models can be exported and checked on this installation."""
    require_extra("onnx", "--onnx", "onnx", "onnxruntime")


def export_onnx(policy: GaussianMlpPolicy, observation_shape: tuple[int, ...], path: Path) -> float:
    """Write the model to `path`, which it replaces only once it was found to agree with the policy.

    Returns:
        The largest difference of an action, in shares of the larger of 1 and its size, on 1000 random observations.

    Raises:
        RuntimeError: if the model does not agree with the policy.
    """
    import onnx

    difference = math.inf

    def write(file: Path) -> None:
        nonlocal difference
        onnx.save(_model(policy, observation_shape), file)
        difference = _difference(policy, observation_shape, file)
        if not difference <= _TOLERANCE:
            raise RuntimeError(f"The exported model's actions differ by {difference:.2g} from those of the policy.")

    replace_file(path, write)
    return difference


class _Graph:
    """Nodes one after another, each with the output of the one before as first input."""

    def __init__(self, value: str) -> None:
        self.value = value
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def constant(self, array: np.ndarray) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def then(self, operator: str, *arrays: np.ndarray, output: str | None = None, **attributes: Any) -> None:
        from onnx import helper

        inputs = [self.value, *map(self.constant, arrays)]
        self.value = output or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [self.value], **attributes))


def _model(policy: GaussianMlpPolicy, observation_shape: tuple[int, ...]) -> ModelProto:
    """The policy, operation by operation and in the precision of each, as `GaussianMlpPolicy.means` does it."""
    import onnx
    from onnx import TensorProto, helper

    graph = _Graph("observation")
    if policy.mean is not None and policy.scale is not None:
        graph.then("Cast", to=TensorProto.DOUBLE)
        graph.then("Sub", policy.mean)
        graph.then("Mul", policy.scale)
        graph.then("Clip", np.array(-policy.clip), np.array(policy.clip))
        graph.then("Cast", to=TensorProto.FLOAT)
    graph.then("Flatten", axis=1)
    for index, (weights, biases) in enumerate(policy.layers):
        if index:
            graph.then({"relu": "Relu", "tanh": "Tanh"}[policy.activation])
        graph.then("Gemm", weights, biases)
    graph.then("Reshape", np.array([-1, *policy.low.shape], np.int64))
    graph.then("Max", policy.low.astype(np.float32))
    graph.then("Min", policy.high.astype(np.float32), output="action")
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "policy",
            [helper.make_tensor_value_info("observation", TensorProto.FLOAT, ["n", *observation_shape])],
            [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["n", *policy.low.shape])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="superdex-gym",
    )
    onnx.checker.check_model(model)
    return model


def _difference(policy: GaussianMlpPolicy, observation_shape: tuple[int, ...], path: Path) -> float:
    import onnxruntime

    observations = np.random.default_rng(0).normal(scale=3, size=(_NUM_CHECKED, *observation_shape))
    if policy.mean is not None and policy.scale is not None:
        observations = observations / policy.scale + policy.mean
    observations = observations.astype(np.float32)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = policy.bounded(policy.means(observations))
    worst = 0.0
    for rows in (observations, observations[:1]):  # any number of them
        (actions,) = session.run(["action"], {"observation": rows})
        error = np.abs(actions - expected[: len(rows)]) / np.maximum(1, np.abs(expected[: len(rows)]))
        worst = max(worst, float(error.max()))
    return worst
