"""Configurations: what they accept, what they refuse, and with which words."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest

from superdex.lab.gym.envs import MochiEnvCfg, TaskCfg
from superdex.lab.gym.envs.benchmarks import AntCfg, CartPoleCfg


@dataclass(frozen=True, kw_only=True)
class SampleCfg(MochiEnvCfg):
    """A field of each kind."""

    count: int = 3
    """[1]"""
    mass: float = 1.5
    """[kg]"""
    name: str = "sample"
    """A text."""
    flag: bool = False
    """A switch."""
    size: tuple[int, int] = (1, 2)
    """Two whole numbers."""
    points: tuple[float, ...] = ()
    """Any number of numbers."""
    grid: tuple[tuple[int, ...], ...] = ()
    """Rows of whole numbers."""
    limit: float | None = None
    """A number or nothing."""
    label: Optional[str] = None  # noqa: UP045
    """A text or nothing."""


def make(**fields: Any) -> SampleCfg:
    return SampleCfg.make(fields)


class TestKeys:
    def test_an_unknown_key_is_named_with_the_nearest_known_one(self) -> None:
        with pytest.raises(ValueError, match=r"CartPoleCfg has no field 'use_gravty'. Did you mean 'use_gravity'\?"):
            CartPoleCfg.make({"use_gravty": True})

    def test_any_unknown_key_gets_a_nearest_and_the_list(self) -> None:
        with pytest.raises(
            ValueError, match=r"no field 'zzz'. Did you mean '\w+'\? Its fields are: .*, control_frequency, "
        ):
            SampleCfg.make({"zzz": 1})

    def test_an_override_is_checked_like_a_key(self) -> None:
        with pytest.raises(ValueError, match=r"no field 'massa'\. Did you mean 'mass'"):
            SampleCfg.make(SampleCfg(), massa=1)

    def test_overrides_take_precedence_and_change_no_argument(self) -> None:
        given = {"mass": 2.0, "count": 4}
        assert SampleCfg.make(given, mass=3.0) == SampleCfg(mass=3.0, count=4)
        assert given == {"mass": 2.0, "count": 4}
        cfg = SampleCfg(mass=2.0)
        assert SampleCfg.make(cfg, count=5) == SampleCfg(mass=2.0, count=5)
        assert cfg.count == 3

    def test_nothing_gives_the_defaults(self) -> None:
        assert SampleCfg.make() == SampleCfg.make(None) == SampleCfg.make({}) == SampleCfg()

    def test_a_configuration_is_taken_as_it_is(self) -> None:
        cfg = SampleCfg()
        assert SampleCfg.make(cfg) is cfg

    @pytest.mark.parametrize("value", [MochiEnvCfg(), CartPoleCfg(), 3, [("mass", 1)], "mass"])
    def test_something_else_is_refused(self, value: Any) -> None:
        with pytest.raises(TypeError, match="must be a SampleCfg or a dict of its fields, got"):
            SampleCfg.make(value)


class TestTypes:
    @pytest.mark.parametrize(
        ("field", "value", "wanted"),
        [
            ("count", 1.0, "int"),
            ("count", True, "int"),
            ("count", np.True_, "int"),
            ("count", "3", "int"),
            ("count", None, "int"),
            ("mass", True, "float"),
            ("mass", "1", "float"),
            ("mass", None, "float"),
            ("mass", [1.0], "float"),
            ("flag", 1, "bool"),
            ("flag", 0.0, "bool"),
            ("flag", None, "bool"),
            ("name", 3, "str"),
            ("name", None, "str"),
            ("label", 3, "str or NoneType"),
            ("limit", "none", "float or NoneType"),
            ("size", (1, 2, 3), r"tuple\[int, int\]"),
            ("size", (1, 2.5), r"tuple\[int, int\]"),
            ("size", [True, 2], r"tuple\[int, int\]"),
            ("size", (np.True_, 2), r"tuple\[int, int\]"),
            ("size", 3, r"tuple\[int, int\]"),
            ("size", "12", r"tuple\[int, int\]"),
            ("points", ["1", 2.0], r"tuple\[float, ...\]"),
            ("points", [[1.0], 2.0], r"tuple\[float, ...\]"),
            ("render_size", (640,), r"tuple\[int, int\] or NoneType"),
            ("use_shared_scenes", 1, "bool"),
            ("steps_per_episode", 10.0, "int"),
        ],
    )
    def test_a_value_of_another_type_is_refused(self, field: str, value: Any, wanted: str) -> None:
        with pytest.raises(TypeError, match=rf"^{field} must be {wanted}, got .* of type "):
            make(**{field: value})
        with pytest.raises(TypeError, match=f"^{field} must be"):
            dataclasses.replace(SampleCfg(), **{field: value})

    @pytest.mark.parametrize(
        ("field", "value", "stored"),
        [
            ("count", np.int64(4), 4),
            ("count", np.uint8(4), 4),
            ("mass", np.float32(0.5), 0.5),
            ("mass", np.int32(2), 2.0),
            ("mass", 2, 2.0),
            ("flag", np.True_, True),
            ("name", np.str_("x"), "x"),
            ("size", [3, 4], (3, 4)),
            ("size", np.array([3, 4]), (3, 4)),
            ("size", (np.int64(3), 4), (3, 4)),
            ("points", [1, 2.5], (1, 2.5)),
            ("points", np.array([0.5, 1.5], np.float32), (0.5, 1.5)),
            ("points", (np.float64(0.5),), (0.5,)),
            ("grid", [[1, 2], [3]], ((1, 2), (3,))),
            ("grid", np.array([[1, 2], [3, 4]]), ((1, 2), (3, 4))),
            ("limit", 3, 3.0),
            ("limit", None, None),
            ("label", "x", "x"),
        ],
    )
    def test_numpy_values_and_lists_become_plain(self, field: str, value: Any, stored: Any) -> None:
        cfg = make(**{field: value})
        result = getattr(cfg, field)
        assert result == stored
        assert type(result) is type(stored)
        assert repr(result) == repr(stored)
        assert cfg == make(**{field: stored})
        assert hash(cfg) == hash(make(**{field: stored}))

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            (np.ndarray, np.zeros(2)),
            (list, [1]),
            (dict, {"a": 1}),
            (set, {1}),
            (Path, Path("arm.xml")),
            (tuple[dict, ...], ({"a": 1},)),
            (Any, object()),
        ],
    )
    def test_a_field_holds_what_can_be_compared_and_saved(self, kind: Any, value: Any) -> None:
        Cfg = dataclasses.make_dataclass(
            "Cfg",
            [("gains", kind, dataclasses.field(default_factory=lambda: value))],
            bases=(TaskCfg,),
            frozen=True,
            kw_only=True,
        )
        with pytest.raises(TypeError, match="^gains must "):
            Cfg()

    def test_fields_cannot_be_set(self) -> None:
        cfg = SampleCfg()
        with pytest.raises(dataclasses.FrozenInstanceError):
            cfg.mass = 2.0  # type: ignore[misc]

    def test_fields_are_keyword_only(self) -> None:
        with pytest.raises(TypeError):
            SampleCfg(20)  # type: ignore[misc]


class TestValues:
    @pytest.mark.parametrize("field", ["control_frequency", "simulation_frequency"])
    @pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
    def test_frequencies_are_positive_and_finite(self, field: str, value: float) -> None:
        with pytest.raises(ValueError, match=f"^{field} must be positive and finite, got {value} Hz"):
            make(**{field: value})

    @pytest.mark.parametrize(("control", "simulation"), [(20, 90), (20, 10), (30, 100), (20, 100.1)])
    def test_simulation_frequency_is_a_multiple_of_control_frequency(self, control: float, simulation: float) -> None:
        with pytest.raises(
            ValueError, match=rf"simulation_frequency \({simulation} Hz\) must be a multiple of control"
        ):
            make(control_frequency=control, simulation_frequency=simulation)

    @pytest.mark.parametrize(
        ("control", "simulation", "substeps"),
        [(20, 100, 5), (50, 50, 1), (0.1, 0.3, 3), (1 / 3, 100, 300), (33.3, 99.9, 3)],
    )
    def test_substeps_and_time_step(self, control: float, simulation: float, substeps: int) -> None:
        cfg = make(control_frequency=control, simulation_frequency=simulation)
        assert cfg.num_substeps == substeps
        assert cfg.timestep == 1 / simulation

    @pytest.mark.parametrize("value", [0, -2])
    def test_steps_per_episode_is_positive_or_no_limit(self, value: int) -> None:
        with pytest.raises(ValueError, match=f"steps_per_episode must be at least 1, or -1 for no limit, got {value}"):
            make(steps_per_episode=value)

    @pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
    def test_reset_noise_scale_is_finite_and_not_negative(self, value: float) -> None:
        with pytest.raises(ValueError, match=f"reset_noise_scale must be finite and not negative, got {value}"):
            make(reset_noise_scale=value)

    def test_num_worker_threads_is_not_negative(self) -> None:
        with pytest.raises(ValueError, match=r"num_worker_threads must be 0 \(automatic\) or more, got -1"):
            make(num_worker_threads=-1)

    def test_ant_frictions_exclude_each_other(self) -> None:
        with pytest.raises(ValueError, match="use_low_friction and use_high_friction exclude each other"):
            AntCfg(use_low_friction=True, use_high_friction=True)

    @pytest.mark.parametrize("value", [(1.0, 0.2), (0.5, 0.5), (float("nan"), 1.0)])
    def test_ant_healthy_range_is_a_range(self, value: tuple[float, float]) -> None:
        with pytest.raises(ValueError, match="healthy_z_range must be"):
            AntCfg(healthy_z_range=value)

    def test_ant_healthy_range_may_come_as_a_list(self) -> None:
        assert AntCfg.make({"healthy_z_range": [0.1, 2]}).healthy_z_range == (0.1, 2)


def test_every_field_has_a_docstring_under_it() -> None:
    import ast
    import inspect

    from superdex.lab.gym.envs.benchmarks import HalfCheetahCfg

    common = {field.name for field in dataclasses.fields(MochiEnvCfg)}
    for cls in (MochiEnvCfg, CartPoleCfg, HalfCheetahCfg, AntCfg):
        body = ast.parse(inspect.getsource(cls)).body[0].body  # type: ignore[attr-defined]
        for statement, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(statement, ast.AnnAssign):
                name = statement.target.id  # type: ignore[union-attr]
                documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                assert documented or (cls is not MochiEnvCfg and name in common), f"{cls.__name__}.{name}"
