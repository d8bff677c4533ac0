"""Error formulas of DeepReduce's policies (Lemmas 5 to 8) and of SKCompress' quantile buckets (Theorem 2)."""

import numpy as np
import pytest

import tfcompress as tfc

D, R, FPR = 4000, 200, 0.02
SEEDS = range(40)
# The quantile codec's buckets come from all values, and each is represented by its mean.
BUCKETS = (2, 16, 128)


def sparse_gradient(seed):
    """An inherently sparse gradient: R elements other than zero at random places."""
    rng = np.random.default_rng([1, seed])
    gradient = np.zeros(D, np.float32)
    gradient[rng.choice(D, R, replace=False)] = rng.standard_normal(R)
    return gradient


def dense_gradient(seed):
    return (np.random.default_rng([2, seed]).standard_normal(D) ** 3).astype(np.float32)


def squared(vector):
    return float(np.square(vector, dtype=np.float64).sum())


def encoded(gradient, sparsifier, policy, seed, fpr=FPR):
    """Returns what one frame decodes to, and how many keys it has."""
    spec = f"{sparsifier}|bloom:policy={policy},fpr={fpr}|raw"
    frame = tfc.encode(gradient, spec, seed)
    return tfc.decode(frame), tfc.inspect(frame)[0]["k"]


@pytest.mark.parametrize("fpr", [0.1, 0.02, 0.001])
def test_lemma_5_positives_of_a_filter(fpr):
    """|P| is about r + fpr (d - r)."""
    found = [encoded(sparse_gradient(seed), "nonzero", "p0", seed, fpr)[1] for seed in SEEDS]
    assert min(found) >= R
    expected = fpr * (D - R)
    deviation = 4 * np.sqrt(expected / len(found))
    assert np.mean(found) - R == pytest.approx(expected, rel=0.1, abs=deviation)


def test_lemma_6_policy_0_loses_nothing_of_a_sparse_gradient():
    for seed in SEEDS:
        gradient = sparse_gradient(seed)
        np.testing.assert_array_equal(encoded(gradient, "nonzero", "p0", seed)[0], gradient)


def test_lemma_6_policy_0_is_no_worse_than_the_sparsifier():
    """The error is at most (1 - |P| / d) of the squared norm, and at most that of Top-r."""
    ratio = R / D
    for seed in SEEDS:
        gradient = dense_gradient(seed)
        decoded, k = encoded(gradient, f"topk:ratio={ratio}", "p0", seed)
        error = squared(gradient - decoded)
        assert error <= (1 - k / D) * squared(gradient)
        largest = tfc.decode(tfc.encode(gradient, f"topk:ratio={ratio}|raw|raw"))
        assert error <= squared(gradient - largest)


@pytest.mark.parametrize("policy", ["p1", "leftmost", "middle", "rightmost"])
def test_lemmas_7_and_8_what_policies_lose_of_a_sparse_gradient(policy):
    """The error is 1 - k1 / r of the squared norm on average: k1 of the r elements are kept at random (9)."""
    errors, expected = [], []
    for seed in SEEDS:
        gradient = sparse_gradient(seed)
        decoded, k = encoded(gradient, "nonzero", policy, seed)
        assert k == R
        kept = np.count_nonzero(decoded)
        errors.append(squared(gradient - decoded) / squared(gradient))
        expected.append(1 - kept / R)
    assert 0.1 < np.mean(expected) < 0.5
    assert np.mean(errors) == pytest.approx(np.mean(expected), rel=0.05)


@pytest.mark.parametrize("policy", ["p1", "p2", "leftmost"])
def test_lemma_7_policies_are_no_worse_than_random_elements(policy):
    """With Top-r the error stays below (1 - r / d) of the squared norm, that of r elements at random."""
    for seed in SEEDS:
        gradient = dense_gradient(seed)
        decoded, _ = encoded(gradient, f"topk:ratio={R / D}", policy, seed)
        assert squared(gradient - decoded) < (1 - R / D) * squared(gradient)


def test_lemma_8_the_error_is_at_most_the_sum_of_its_parts():
    """What P1 loses of all positives is at most what its true and its false positives lose alone."""
    for seed in SEEDS:
        gradient = dense_gradient(seed)
        sparsifier = f"topk:ratio={R / D}"
        positives = encoded(gradient, sparsifier, "p0", seed)[0]
        chosen = encoded(gradient, sparsifier, "p1", seed)[0]
        largest = np.abs(gradient) >= np.sort(np.abs(gradient))[-R]
        parts = [squared(positives - np.where(part, chosen, 0)) for part in (largest, ~largest)]
        assert squared(positives - chosen) <= sum(parts)


@pytest.mark.parametrize("buckets", BUCKETS)
@pytest.mark.parametrize("shape", ["normal", "heavy tail", "one sign", "few values"])
def test_theorem_2_bounds_the_error_of_quantile_buckets(buckets, shape):
    """At most d / 4 q (min^2 + max^2)."""
    rng = np.random.default_rng(3)
    values = {
        "normal": rng.standard_normal(D),
        "heavy tail": rng.standard_normal(D) ** 5,
        "one sign": rng.exponential(size=D),
        "few values": rng.integers(-3, 4, D).astype(float),
    }[shape].astype(np.float32)
    decoded = tfc.decode(tfc.encode(values, f"dense|raw|quantile:buckets={buckets}"))
    bound = D / (4 * buckets) * (float(values.min()) ** 2 + float(values.max()) ** 2)
    assert squared(values - decoded) <= bound
