"""Arrays that are larger than their budget do what numpy's own do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import foreread

#: Bytes of a budget here; arrays have a little more.
BUDGET = 512 << 10

PAIR = [("key", ">i4"), ("value", "f4")]
DTYPES = "f8 >f8 f4 >f4 f2 g i8 >i4 i2 u1 ? c16 >c8 M8[s] m8[ns] >M8[us] S3 U2".split()

Made = np.ndarray[Any, Any]


def drawn(dtype: Any) -> Made:
    """A little more than a budget: many equal items, some negative, and some NaN or NaT."""
    of = np.dtype(dtype)
    rng = np.random.default_rng(1)
    numbers = rng.integers(-50, 50, 9 * BUDGET // 8 // of.itemsize // 128 * 128)
    if of.kind in "SU":
        return numbers.astype(of)
    if of.kind == "V":
        made = np.zeros(len(numbers), of)
        made["key"], made["value"] = numbers, numbers / 3
        return made
    with np.errstate(all="ignore"):
        made = (numbers / 3 if of.kind in "fc" else numbers).astype(of)
    if of.kind == "c":
        made += (1j * rng.integers(-2, 2, len(made))).astype(of)
        made[7::9000] = complex(1, np.nan)
    if of.kind in "fc":
        made[::10_000] = np.nan
        made[5::10_000] = -np.inf
    if of.kind in "mM":
        made[::10_000] = "NaT"
    return made


def held(ordinary: Made) -> foreread.Array:
    array = foreread.empty(ordinary.shape, ordinary.dtype, budget=BUDGET)
    array[:] = ordinary
    return array


def views(of: Any) -> list[Any]:
    """Views of one axis and more, most of them of all items."""
    matrix, cube = of.reshape(-1, 4), of.reshape(8, -1, 4)
    return [
        *(of, of[::-1], of[::2]),
        *(matrix, matrix.T, of.reshape(4, -1), of.reshape(1, -1), matrix[::-1, ::-1]),
        *(cube, cube.transpose(2, 0, 1), cube.transpose(1, 0, 2), cube[:, :, ::2].T),
        *(of[:0], of[:12].reshape(3, 4), of.reshape(-1)[3:4].reshape(())),
    ]


def told(run: Callable[[], Any]) -> tuple[Any, Any]:
    """What a call returns, or the error it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return run(), None
        except Exception as error:
            return None, (type(error), str(error))


def is_same(call: Callable[[Any], Any], array: Any, ordinary: Any, close: bool = False) -> bool:
    (made, failed), (wanted, wanted_failed) = (
        told(lambda: call(array)),
        told(lambda: call(ordinary)),
    )
    assert failed == wanted_failed
    if failed is not None:
        return True
    assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape)
    if made.ndim:
        assert (type(made), type(wanted)) == (foreread.Array, np.ndarray)
    if close:
        # Sums in another order.
        digits = 1e-3 if made.dtype.itemsize < 8 else 1e-9
        return np.allclose(made, wanted, digits, digits, equal_nan=True)
    if isinstance(made, np.ndarray) and made.size > 1 and 1 not in made.shape:
        assert made.strides == wanted.strides
    if made.dtype.kind == "V":
        return bool(made.tobytes() == wanted.tobytes())
    if made.dtype.kind in "fcmM":
        return np.array_equal(made, wanted, equal_nan=True)
    return np.array_equal(made, wanted)


@pytest.mark.parametrize("dtype", ["f8", PAIR], ids=str)
def test_copies(dtype: Any) -> None:
    ordinary = drawn(dtype)
    orders = ("C", "f", "A", "k", None, "x", 1)
    for array, like in zip(views(held(ordinary)), views(ordinary), strict=True):
        for order in orders:
            assert is_same(lambda of, order=order: of.copy(order), array, like)
            assert is_same(lambda of, order=order: of.flatten(order), array, like)
        for order in ("F", None):
            assert is_same(lambda of, order=order: of.astype(of.dtype, order), array, like)
        if array.nbytes > BUDGET:
            assert array.copy().region is not array.region is not None
            assert array.copy("f").region.stats()["pages_budget"] == BUDGET // 4096


@pytest.mark.parametrize("dtype", ["f8", ">i4", ">c8", "M8[s]", "m8[ns]", "U2", PAIR], ids=str)
def test_casts(dtype: Any) -> None:
    ordinary = drawn(dtype)
    array = held(ordinary)
    for of in (
        *("f8", "f2", ">i4", "?", "c16"),
        *("M8", "m8", ">M8", "M8[D]", "S", "U", "V", "S1", "(2,)f4", None, float, str, PAIR),
        *(np.datetime64, np.timedelta64, np.dtypes.Float32DType, [("a", "M8"), ("b", "S")]),
        *([("a", "(2,)f4"), ("b", "i4")], "nothing"),
    ):
        assert is_same(lambda items, of=of: items.astype(of), array, ordinary), of
    for casting in ("no", "equiv", "safe", "same_kind", "unsafe", "same_value", "wrong"):
        for of in ("f4", "M8"):
            assert is_same(
                lambda items, of=of, casting=casting: items.astype(of, "f", casting),
                array.reshape(-1, 4),
                ordinary.reshape(-1, 4),
            )


@pytest.mark.parametrize("dtype", DTYPES)
def test_orders(dtype: str) -> None:
    # More than a budget of indices, too.
    ordinary = np.tile(drawn(dtype), max(np.dtype(dtype).itemsize // 8, 1))
    found = held(ordinary).argsort()
    assert found.region is not None
    assert np.array_equal(found, ordinary.argsort(kind="stable"))


def test_orders_of_axes() -> None:
    ordinary = drawn("f8")
    for array, like in zip(views(held(ordinary)), views(ordinary), strict=True):
        for axis in (-1, 1, None):
            assert is_same(lambda of, axis=axis: of.argsort(axis, stable=True), array, like)
    array, like = held(ordinary), ordinary
    for axis in (5, -5, np.int64(0), True, 1.0, (0,), "a"):
        assert is_same(lambda of, axis=axis: of.argsort(axis, "stable"), array, like)


def test_options_of_an_order() -> None:
    ordinary = drawn("f8")
    array, like = held(ordinary), ordinary
    for options in (
        *({"order": "x"}, {"order": "key"}, {"order": []}, {"kind": "x"}, {"kind": "Stable"}),
        *({"kind": "stable", "stable": True}, {"kind": "heapsort", "stable": False}, {"kind": 1}),
        {"kind": "quicksort"},
    ):
        found, wanted = (
            told(lambda of=of, options=options: of.argsort(**options)) for of in (array, like)
        )
        assert found[1] == wanted[1], options
        # Equal items may be in any order.
        if not found[1]:
            assert like[found[0]].tobytes() == like[wanted[0]].tobytes()
    pairs = drawn(PAIR)
    assert is_same(lambda of: of.argsort(order="key", kind="stable"), held(pairs), pairs)


@pytest.mark.parametrize("dtype", [*DTYPES, PAIR], ids=str)
@pytest.mark.parametrize("name", ["var", "std"])
def test_deviations(dtype: Any, name: str) -> None:
    ordinary = drawn(dtype)
    if ordinary.dtype.kind in "fc":
        # One item that is none makes all none.
        ordinary[~np.isfinite(ordinary)] = 1
        ordinary[5] = np.nan

    def of(items: Any, *args: Any, **options: Any) -> Any:
        return getattr(items, name)(*args, **options)

    several = views(held(ordinary)), views(ordinary)
    for array, like in list(zip(*several, strict=True))[:: 1 if dtype in ("f8", ">c8") else 4]:
        for axis in (None, 0, 1, -1, (0, -1)):
            assert is_same(lambda x, a=axis: of(x, a, ddof=1), array, like, True)
        assert is_same(lambda x: of(x, 0, keepdims=True), array, like, True)
        assert is_same(lambda x: getattr(np, name)(x), array, like, True)
    array, like = array_like = held(ordinary).reshape(4, -1), ordinary.reshape(4, -1)
    for axis in ((0, 1), (0, 0), (), 5, True, 1.0, "a", np.int8(0)):
        assert is_same(lambda x, a=axis: of(x, a), array, like, True)
    for options in (
        *({"dtype": "f4"}, {"where": np.array(True)}, {"ddof": "a"}, {"wrong": 1}, {"ddof": 1.5}),
        *({"ddof": 4, "axis": 0}, {"ddof": 9, "axis": 0}),
    ):
        assert is_same(lambda x, options=options: of(x, **options), array, like, True)
    into = np.zeros(array.shape[1:])
    found, wanted = (told(lambda x=x: of(x, 0, None, into, 0, False)) for x in array_like)
    assert found[1] == wanted[1] and (found[0] is into) == (wanted[0] is into)


def test_too_many_degrees_are_warned_of() -> None:
    array = held(drawn("i8")).reshape(4, -1)
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        array.var(0, ddof=4)
