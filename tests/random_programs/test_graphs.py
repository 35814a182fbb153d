"""The random programs run in torch, contain what they promise, and their arguments share memory as promised."""

import numpy as np

from tests.random_programs.graphs import FEATURES, random_program


def test_all_features_occur_and_can_be_left_out():
    ops = {
        "views": "aten::select(", "in-place": "aten::add_(", "lists": "aten::append(", "tuples": "prim::TupleIndex(",
        "dicts": "prim::DictConstruct(", "if": "prim::If(", "loop": "prim::Loop(", "reductions": "aten::sum(", "matmul": "aten::mm(",
        "select": "aten::where(",
    }  # fmt: skip
    with_all = "".join(random_program(seed, size=20).text for seed in range(60))
    for feature, op in ops.items():
        assert op in with_all
        assert op not in "".join(random_program(seed, features=FEATURES - {feature}).text for seed in range(30))


def test_fresh_arguments_share_memory_as_the_first_ones_do():
    shared = 0
    for seed in range(40):
        program = random_program(seed)
        first = [item for item in program.inputs if isinstance(item, np.ndarray)]
        second = [item for item in program.fresh() if isinstance(item, np.ndarray)]
        for i, array in enumerate(first):
            np.testing.assert_array_equal(array, second[i])
            assert not np.shares_memory(array, second[i])
            for j in range(i):
                shared += np.shares_memory(array, first[j])
                assert np.shares_memory(array, first[j]) == np.shares_memory(second[i], second[j])
    assert shared > 10
