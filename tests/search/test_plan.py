"""The plan of a fit: parsed from a constructor's values before any row is read, completed by what data decide."""

from copy import deepcopy
from dataclasses import fields, replace

import numpy as np
import pytest
from sklearn.model_selection import KFold

from mlkm import Geometric, MLKMRegressor, RandomFeatureRidge, RKMRegressor
from mlkm.data import standardiser
from mlkm.kernels import Gaussian, Matern
from mlkm.search.plan import Plan
from mlkm.search.policy import Policy, policy_context, with_effort
from mlkm.solve import GradientDescent, Kernels, Ridge, VariableProjection


def parse(**params):
    return Plan.parse(params, landmarks=True)


def test_nothing_asked_for_is_the_default():
    plan = parse()
    assert plan.widths is None
    assert plan.depth == 1
    assert plan.solver == Ridge()
    assert plan.kernels == (Gaussian(),)
    assert plan.penalty is None
    assert plan.penalties == ()
    assert plan.automatic
    assert plan.closed_form
    assert plan.takes_levels
    assert plan.learned
    assert plan.rough
    assert plan.linear
    assert not plan.rotate
    assert plan.n_parts == 0


def test_parsing_changes_nothing_and_says_the_same_again():
    solver, scales = GradientDescent(max_iter=7), [np.array([1.0, 2.0]), "auto"]
    params = {"widths": [8, 4], "scales": scales, "solver": solver, "cv": [([0], [1]), ([1], [0])], "verbose": 3}
    before = deepcopy(params)
    one, other = parse(**params), parse(**params)
    assert repr(params) == repr(before)
    assert repr(one) == repr(other)
    assert one.solver is solver


def test_parsing_does_not_use_up_splits_that_come_once():
    splits = KFold(3).split(np.zeros(9))
    assert parse(widths=(5,), cv=splits).n_parts is None
    folds = parse(widths=(5,), cv=splits).folds(np.zeros((9, 1)), np.zeros(9))
    np.testing.assert_array_equal(folds, np.repeat(np.arange(3), 3))


@pytest.mark.parametrize(
    ("params", "closed_form", "automatic", "takes_levels"),
    [
        ({}, True, True, True),
        ({"solver": "ridge"}, True, True, True),
        ({"solver": Kernels(max_rows=500)}, True, True, True),
        ({"widths": (100,)}, True, True, False),
        ({"widths": np.array([100])}, True, True, False),
        ({"scales": 1.0}, True, False, False),
        ({"scales": (0.5,)}, True, False, False),
        ({"kernels": "matern"}, True, True, False),
        ({"interactions": 2}, True, True, False),
        ({"relevance": False}, True, True, False),
        ({"relevance": np.False_}, True, True, False),
        ({"penalty": 1e-3}, True, True, False),
        ({"penalty": "cv"}, False, True, False),
        ({"cv": "rotate"}, False, True, False),
        ({"widths": (20, 5)}, False, True, False),
        ({"widths": (20, 5), "scales": Geometric()}, False, False, False),
        ({"widths": (20, 5), "scales": ("auto", 1.0)}, False, True, False),
        ({"solver": "gradient"}, False, False, False),
        ({"solver": GradientDescent(), "widths": (20,)}, False, False, False),
    ],
    ids=str,
)
def test_what_kind_of_fit_it_is(params, closed_form, automatic, takes_levels):
    plan = parse(**params)
    assert (plan.closed_form, plan.automatic, plan.takes_levels) == (closed_form, automatic, takes_levels)
    assert not Plan.parse(params).takes_levels
    assert plan.sums(10**6) == closed_form
    assert not plan.sums(10)


def test_auto_is_resolved():
    assert parse(widths=(20, 5)).solver == VariableProjection()
    assert parse(solver="gradient").widths == Policy().descent_widths
    assert parse(penalty="cv").penalties == Policy().penalties
    assert parse(penalty="cv").with_penalty(0.1).penalties == ()
    assert parse(kernels=Matern(1.5), widths=(9, 3)).kernels == (Matern(1.5),) * 2
    assert parse(linear=False).slopes == ()


@pytest.mark.parametrize(
    ("cv", "n_parts"), [(None, 0), ("rotate", 3), (5, 5), (np.int64(4), 4), (KFold(3), None), ([([0], [1])], None)]
)
def test_parts(cv, n_parts):
    plan = parse(widths=(9, 5, 3), cv=cv)
    assert plan.n_parts == n_parts
    assert plan.rotate == (cv is not None)


def test_folds_are_those_of_the_splitter():
    X, y = np.zeros((6, 1)), np.zeros(6)
    assert parse().folds(X, y) is None
    assert parse(widths=(5, 2), cv="rotate").folds(X, y) is None
    np.testing.assert_array_equal(parse(cv=KFold(2)).folds(X, y), [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(parse(cv=3).folds(X, y), [0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"widths": (0,)}, r"^widths must be 'auto' or positive whole numbers, one per layer, .*; got \(0,\)"),
        ({"kernels": "rbf"}, "^A kernel must be one of 'gaussian', .*; got 'rbf'"),
        ({"widths": (4, 2), "scales": (1.0,)}, r"^scales must have one entry per layer \(2 here\)"),
        ({"interactions": 0}, "^interactions must be 'full', a positive number of inputs"),
        ({"relevance": "yes"}, "^relevance must be True, False or 'auto'; got 'yes'"),
        ({"linear": 1}, "^linear must be True, False or 'auto'; got 1"),
        ({"penalty": -1}, "^penalty must be 'auto', 'cv' or a number of at least 0; got -1"),
        ({"cv": "shuffle"}, "^cv must be None, 'rotate', a number of folds, a splitter or an iterable of splits; got"),
        ({"cv": 1}, "^cv as a number of folds must be a whole number of at least 2; got 1"),
        ({"solver": "adam"}, "^solver must be one of 'auto', .* or an object of mlkm.solvers; got 'adam'"),
        ({"solver": "projection"}, r"^solver=VariableProjection\(\) trains hidden layers"),
        ({"solver": Kernels(0)}, "^max_rows must be a whole number of at least 1; got 0"),
        ({"effort": "slow"}, "^effort must be one of 'fast', 'balanced', 'best', or a finite number of seconds"),
        ({"n_jobs": 0}, "^n_jobs must be None or a whole number other than 0; got 0"),
    ],
    ids=str,
)
def test_every_choice_is_checked_before_rows_are_read(params, message):
    with pytest.raises(ValueError, match=message):
        parse(**params)

    def never_read(*_):
        raise AssertionError("rows were read")

    rows = type("Rows", (), {"__array__": never_read, "shape": property(never_read)})()
    with pytest.raises(ValueError, match=message):
        MLKMRegressor(**params).fit(rows, rows)


def test_the_data_decide_scales_orders_and_origin():
    X = np.array([[0.0, 10.0], [2.0, 14.0], [4.0, 18.0]])
    units = standardiser(X, np.ones(3))
    plan = parse(scales=([0.5, 2.0],), interactions=(1, "full")).at(2, units, seed=3, n_rows=99)
    np.testing.assert_allclose(plan.scales[0], np.array([0.5, 2.0]) * units.sd)
    np.testing.assert_allclose(plan.origin, units.mean / units.sd)
    assert (plan.orders, plan.seed, plan.n_rows) == ((1, 2), 3, 99)
    deep = parse(widths=(9, 4)).at(2, units)
    assert deep.scales[0] is None
    assert deep.scales[1] == 0.5
    assert deep.origin is None
    with pytest.raises(ValueError, match=r"^A scale must be a positive number, or one per input \(3 here\)"):
        parse(scales=([0.5, 2.0],)).at(3)
    with pytest.raises(ValueError, match=r"^The inputs times the given scale are of size 1e"):
        parse(scales=1e120).at(2)
    with pytest.raises(MemoryError, match=r"Layers of widths .* need about"):
        parse(widths=(10**12,)).at(2)


def test_policy_is_that_in_force_with_the_sizes_of_the_effort():
    assert parse().sized(100, 3).policy == Policy()
    assert parse(effort="best").sized(100, 3).policy == with_effort(Policy(), "best")
    with policy_context(replace(Policy(), draws=7)):
        assert parse(effort="fast").sized(100, 3).policy == with_effort(Policy(draws=7), "fast")
    for effort in ("best", 1.0, 1e5):
        solver = Kernels(max_rows=20_000)
        assert parse(effort=effort, solver=solver).sized(50_000, 3).policy.kernel_rows == (20_000, 20_000)


def test_a_time_has_a_deadline_and_a_name_has_none():
    assert parse(effort="fast").deadline(5.0, 100, 3).fit == np.inf
    plan = parse(effort=8).sized(100, 3)
    end = plan.deadline(5.0, 100, 3)
    assert end.fit == 13.0
    assert 7.0 <= end.search <= 13.0
    assert plan.seconds == 8.0


def test_cost_is_of_what_the_plan_fits():
    assert "kernels at 500 rows" in str(parse().cost(500, 3))
    assert "70 features on 500 rows" in str(parse(widths=(70, 5)).cost(500, 3))
    assert "features on 1,000,000 rows" in str(Plan.parse({}).cost(10**6, 3, in_memory=False))
    assert parse(widths=(70,), scales=1.0).cost(500, 3).seconds < parse(widths=(70,)).cost(500, 3).seconds


def test_regressors_hand_their_parameters_over():
    ridge = RandomFeatureRidge(40, "laplacian", 2.0, penalty=0.1)._plan()
    assert (ridge.widths, ridge.given_scales, ridge.penalty, ridge.landmarks) == ((40,), (2.0,), 0.1, False)
    for machine, residual in ((MLKMRegressor, False), (RKMRegressor, True)):
        plan = machine(widths=(8, 3), cv="rotate", effort="fast", n_jobs=2)._plan()
        assert (plan.widths, plan.cv, plan.effort, plan.n_jobs) == ((8, 3), "rotate", "fast", 2)
        assert plan.residual == residual
        assert plan.landmarks


def test_a_plan_is_not_changed_in_place():
    plan = parse()
    for field in fields(plan):
        with pytest.raises(AttributeError):
            setattr(plan, field.name, None)
