"""ONNX models do what the policy does, and are not left behind when they do not."""

import itertools

import numpy as np
import pytest

from superdex.lab.apps import onnx_export
from superdex.lab.apps.onnx_export import export_onnx
from superdex.lab.gym.rollouts import GaussianMlpPolicy


def make_policy(sizes, normalized=True, activation="relu"):
    rng = np.random.default_rng(0)
    layers = tuple(
        (rng.normal(size=(a, b)).astype(np.float32), rng.normal(size=b).astype(np.float32))
        for a, b in itertools.pairwise(sizes)
    )
    bound = np.full(sizes[-1], 2, np.float32)
    moments = {"mean": rng.normal(1e4, 1, sizes[0]), "scale": rng.uniform(1, 3, sizes[0])} if normalized else {}
    log_std = np.zeros(sizes[-1], np.float32)
    return GaussianMlpPolicy(layers=layers, activation=activation, log_std=log_std, low=-bound, high=bound, **moments)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("normalized", [True, False])
def test_model_agrees_with_the_policy(tmp_path, normalized, activation):
    import onnxruntime

    policy = make_policy((5, 16, 16, 3), normalized, activation)

    assert export_onnx(policy, (5,), tmp_path / "policy.onnx") < 1e-5

    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    observation = np.full((7, 5), 1e4, np.float32) + np.arange(7, dtype=np.float32)[:, None]
    (actions,) = session.run(None, {"observation": observation})
    np.testing.assert_allclose(actions, policy.bounded(policy.means(observation)), atol=1e-5)
    assert actions.max() == 2  # clipped


def test_model_that_disagrees_is_not_kept(tmp_path, monkeypatch):
    wrong = make_policy((5, 8, 3), activation="tanh")
    written = onnx_export._model
    monkeypatch.setattr(onnx_export, "_model", lambda policy, shape: written(wrong, shape))

    with pytest.raises(RuntimeError, match=r"The exported model's actions differ by .* from those of the policy\."):
        export_onnx(make_policy((5, 8, 3)), (5,), tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []
