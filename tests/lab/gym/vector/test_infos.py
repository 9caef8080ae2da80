"""Infos where Gymnasium's own merge is wrong: ours is defined, documented and the same for every split."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from superdex.lab.gym.utils.vector import HybridVectorEnv
from superdex.lab.gym.vector.collector import Collector
from superdex.lab.gym.vector.columns import ArrayColumn, CodedColumn, Columns, NestedColumn, ObjectColumn
from superdex.lab.gym.vector.infos import extend, merge, relocate, select
from superdex.lab.gym.vector.transport import SharedBuffer
from superdex.lab.gym.vector.wire import ColumnReceiver, ColumnSender
from tests.lab.gym.vector.comparing import assert_same
from tests.lab.gym.vector.mocks import InfoEnv, ReusingEnv
from tests.lab.gym.vector.split import SplitVectorEnv


def merged(values: list[Any], k: int) -> dict[str, Any]:
    """`{"k": value}` of one environment each (none for `...`), merged from chunks of `k`."""
    columns: Columns = {}
    for start in range(0, len(values), k):
        chunk = values[start : start + k]
        collector = Collector(len(chunk))
        for row, value in enumerate(chunk):
            collector.add(row, {} if value is ... else {"k": value})
        extend(columns, relocate(collector.columns(), slice(start, start + len(chunk))))
    return merge(columns, len(values))


def objects(*values: Any) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array


TWO, THREE = np.arange(2.0), np.arange(3.0)

CASES = {
    "fraction survives": ([1, 2.5, 3, 4], np.array([1.0, 2.5, 3.0, 4.0])),
    "bool and int": ([True, 7, False, 0], np.array([1, 7, 0, 0])),
    "narrow and wide": ([np.float32(0.5), 0.1, np.float16(2), ...], np.array([0.5, 0.1, 2.0, 0.0])),
    "small integers": ([np.int8(1), np.uint8(200), ..., np.int8(3)], np.array([1, 200, 0, 3], np.int16)),
    "promotion is not associative": (
        [np.int8(1), np.uint8(2), np.float16(3), np.int16(4)],
        np.array([1, 2, 3, 4], np.float32),
    ),
    "number and array scalar": ([1, np.array(2.5), ..., ...], np.array([1, 2.5, 0, 0])),
    "shapes differ": ([TWO, THREE, ..., TWO], objects(TWO, THREE, None, TWO)),
    "number and array": ([1.5, TWO, ..., ...], objects(1.5, TWO, None, None)),
    "number and string": ([3, "hi", 2.5, ...], objects(3, "hi", 2.5, None)),
    "number and None": ([1.5, None, ..., 2], objects(1.5, None, None, 2)),
    "bools of two kinds": ([True, np.bool_(False), ..., 1], objects(True, np.bool_(False), None, 1)),
    "dict and number": ([{"a": 1}, 7, ..., {"b": {"c": TWO}}], objects({"a": 1}, 7, None, {"b": {"c": TWO}})),
    "huge integers": ([1, 2**70, ..., -1], objects(1, 2**70, None, -1)),
    "array and string array": ([TWO, np.array(["a", "b"]), ..., ...], objects(TWO, np.array(["a", "b"]), None, None)),
    "string widths": (
        [np.array(["a"]), np.array(["abcd"]), ..., np.array(["xy"])],
        np.array([["a"], ["abcd"], [""], ["xy"]]),
    ),
    "array dtypes": ([np.float32([1]), np.int32([2]), ..., ...], np.array([[1], [2], [0], [0]], np.float64)),
}


@pytest.mark.parametrize("case", CASES)
def test_merge_is_defined_and_the_same_for_every_split_and_order(case: str) -> None:
    values, expected = CASES[case]
    for order in permutations(range(4)):
        shuffled = [values[i] for i in order]
        for k in (1, 2, 3, 4):
            infos = merged(shuffled, k)
            assert_same(infos["k"], expected[list(order)], f"{order} by {k}")
            assert_same(infos["_k"], np.array([value is not ... for value in shuffled]))


def test_own_mask_key_gives_way_to_the_mask() -> None:
    for info in ({"x": 1, "_x": 5}, {"_x": 5, "x": 1}):
        collector = Collector(2)
        collector.add(0, info)
        assert_same(merge(collector.columns(), 2), {"x": np.array([1, 0]), "_x": np.array([True, False])})


def test_keys_need_not_be_strings() -> None:
    collector = Collector(1)
    collector.add(0, {1: 2.0, ("a", "b"): None})
    infos = merge(collector.columns(), 1)
    assert set(infos) == {1, "_1", ("a", "b"), "_('a', 'b')"}


@pytest.mark.parametrize("k", [1, 2, 4])
def test_reused_buffers_hold_the_last_values_of_the_ended_episode(k: int) -> None:
    env = SplitVectorEnv([partial(ReusingEnv, 3)] * 4, k, AutoresetMode.SAME_STEP)
    env.reset(seed=0)
    for _ in range(3):
        result = env.step(np.zeros((4, 2), np.float32))
    assert result.observation[:, 0].tolist() == [0, 0, 0, 0]
    assert [final[0] for final in result.info["final_obs"]] == [3, 3, 3, 3]
    assert_same(result.info["final_info"]["array"], np.full((4, 2), 3.0))
    assert result.info["final_info"]["nested"]["list"].tolist() == [[3]] * 4
    assert_same(result.info["array"], np.zeros((4, 2)))
    assert result.info["nested"]["list"].tolist() == [[0]] * 4


def test_infos_through_worker_processes() -> None:
    """Types that need the pipe, in two splits of real workers."""
    infos: list[dict[str, Any]] = [
        {"k": 1, "fn": len, "deep": {"s": "a", "n": 1}},
        {"k": 2.5, "s": "b", "deep": {"n": 0.5}},
        {"s": None, "deep": {}},
        {"k": True, "s": "b", "object_array": objects(1, "x")},
    ]
    seen = []
    for k in (1, 2, 4):
        with HybridVectorEnv([partial(InfoEnv, info) for info in infos], k) as env:
            seen.append(env.reset(seed=0)[1])
    assert_same(seen[0]["k"], np.array([1, 2.5, 0, 1]))
    assert_same(seen[0]["deep"]["n"], np.array([1, 0.5, 0, 0]))
    assert_same(seen[0]["_deep"], np.array([True, True, True, False]))
    assert_same(seen[0]["object_array"], np.array([[0, 0], [0, 0], [0, 0], [1, "x"]], dtype=object))
    for other in seen[1:]:
        assert_same(other, seen[0])


def test_info_that_cannot_be_sent_names_its_key() -> None:
    with HybridVectorEnv([partial(InfoEnv, {"fine": [1]}), lambda: InfoEnv({"stuck": threading.Lock()})]) as env:
        with pytest.raises(TypeError, match="The info 'stuck' cannot be sent to another process"):
            env.reset()
        assert env.closed


def test_select_and_relocate() -> None:
    columns: Columns = {
        "array": [ArrayColumn(None, np.arange(4.0), float)],
        "coded": [CodedColumn(np.array([1, 3]), np.array([0, 1], np.uint8), ("a", None))],
        "objects": [ObjectColumn(slice(1, 3), [[1], [2]])],
        "nested": [NestedColumn(np.array([0, 2]), {"x": [ArrayColumn(np.array([2]), np.array([5]), int)]})],
    }
    kept = select(columns, np.array([False, True, False, True]))
    assert set(kept) == {"array", "coded", "objects"}
    infos = merge(relocate(kept, np.array([0, 2, 4, 6])), 8)
    assert_same(infos["array"], np.array([0, 0, 1.0, 0, 0, 0, 3.0, 0]))
    assert_same(infos["coded"], objects(None, None, "a", None, None, None, None, None))
    assert np.flatnonzero(infos["_coded"]).tolist() == [2, 6]
    assert_same(infos["objects"], objects(None, None, [1], None, None, None, None, None))
    moved = merge(relocate(columns, slice(2, 6)), 6)
    assert_same(moved["nested"], {"x": np.array([0, 0, 0, 0, 5, 0]), "_x": np.arange(6) == 4})
    assert np.flatnonzero(moved["_nested"]).tolist() == [2, 4]
    assert np.flatnonzero(moved["_objects"]).tolist() == [3, 4]


def test_final_obs_columns_become_arrays_of_their_own() -> None:
    values = np.arange(6.0).reshape(3, 2)
    infos = merge({"final_obs": [ArrayColumn(np.array([0, 1, 3]), values)]}, 4)
    assert_same(infos["final_obs"], objects(values[0], values[1], None, values[2]))
    assert not np.shares_memory(infos["final_obs"][0], values)


def test_the_result_shares_no_memory_with_columns() -> None:
    values = np.arange(3.0)
    columns: Columns = {"x": [ArrayColumn(None, values, float)], "y": [ArrayColumn(None, values, float)]}
    infos = merge(columns, 3)
    values[:] = -1
    assert_same(infos["x"], np.arange(3.0))
    infos["_x"][0] = False
    assert infos["_y"].all()


def test_many_different_strings() -> None:
    """More than codes can tell apart."""
    texts = [f"text {i}" for i in range(300)]
    infos = merged(texts, 300)
    assert_same(infos["k"], objects(*texts))


def test_wire_sends_a_few_bytes_while_nothing_changes() -> None:
    buffer = SharedBuffer()
    sender, receiver = ColumnSender(buffer), ColumnReceiver(buffer)
    sizes = []
    for step in range(4):
        rows = np.array([0, 2, 3]) + step
        columns: Columns = {
            "x": [ArrayColumn(None, np.full(1000, step, np.float64), float)],
            "nested": [NestedColumn(rows, {"y": [ArrayColumn(rows, np.full((3, 2), step), np.ndarray)]})],
            "why": [CodedColumn(rows, np.zeros(3, np.uint8), (f"text {step // 2}",))],
        }
        message = sender.send(columns)
        sizes.append(len(message))
        assert_same(merge(receiver.receive(message), 1000), merge(columns, 1000))
    assert sizes[1] < 100  # nothing but lengths
    assert sizes[2] > sizes[1]  # another text is another schema
    assert sizes[3] == sizes[1]


def test_wire_grows_its_memory() -> None:
    buffer = SharedBuffer()
    sender, receiver = ColumnSender(buffer), ColumnReceiver(buffer)
    for size in (1, 10, 100_000, 1_000_000, 5, 2_000_000):
        columns: Columns = {key: [ArrayColumn(None, np.arange(size), int)] for key in "ab"}
        assert_same(merge(receiver.receive(sender.send(columns)), size), merge(columns, size))


def test_wire_sends_presence_that_columns_share_once() -> None:
    buffer = SharedBuffer()
    sender, receiver = ColumnSender(buffer), ColumnReceiver(buffer)
    some, others = np.arange(6) % 3 > 0, np.arange(6) % 2 > 0
    values = np.arange(1.0, 7.0)

    def columns_of(masks: Sequence[np.ndarray | None]) -> Columns:
        return {
            f"k{i}": [ArrayColumn(None, values if mask is None else values * mask, float, mask)]
            for i, mask in enumerate(masks)
        }

    for masks in ([some, some, some], [some, others, some], [None, some, some], [others, None, others]):
        columns = columns_of(masks)
        assert_same(merge(receiver.receive(sender.send(columns)), 6), merge(columns, 6))
    alike, apart = (len(sender.send(columns_of(masks))) for masks in ([some] * 3, [some, others, some]))
    assert alike < apart


def test_wire_uses_its_views_again_only_for_arrays_of_the_same_form() -> None:
    buffer = SharedBuffer()
    sender, receiver = ColumnSender(buffer), ColumnReceiver(buffer)
    for shape, dtype in [((3,), "f8"), ((3,), "i8"), ((3, 2), "f4"), ((4, 2), "f4"), ((3,), "f8"), ((3,), "f8")]:
        columns: Columns = {
            "before": [ArrayColumn(slice(0, 2), np.array([1.0, 2.0]), float)],
            "k": [ArrayColumn(slice(0, shape[0]), np.full(shape, 7, dtype))],
            "after": [ArrayColumn(None, np.arange(5), int)],
        }
        assert_same(merge(receiver.receive(sender.send(columns)), 5), merge(columns, 5))
