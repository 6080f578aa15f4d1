"""The weight `posterior`: probability that one success rate is above another."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import betainc, betaln, expit, log_expit, logit

from mcgpo_data.build import posterior
from mcgpo_data.build.posterior import superiority

counts = st.sampled_from([1, 3, 10, 100, 2000]).flatmap(lambda high: st.integers(1, high))
evidence = counts.flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def adaptive(s_a: int, n_a: int, s_b: int, n_b: int) -> float:
    """Adaptive quadrature over the log odds x of theta_a, in pieces around the peaks of both posteriors."""

    def integrand(x: float) -> float:
        log_theta, log_rest = log_expit(x), log_expit(-x)
        density = np.exp((s_a + 0.5) * log_theta + (n_a - s_a + 0.5) * log_rest - betaln(s_a + 0.5, n_a - s_a + 0.5))
        return float(density * betainc(s_b + 0.5, n_b - s_b + 0.5, expit(x)))

    cuts = {-100.0, 100.0}
    for s, n in ((s_a, n_a), (s_b, n_b)):
        width = 1 / np.sqrt((s + 0.5) * (n - s + 0.5) / (n + 1))
        cuts |= {float(logit((s + 0.5) / (n + 1)) + k * width) for k in (-30, -10, -5, -2, 0, 2, 5, 10, 30)}
    edges = sorted(cut for cut in cuts if abs(cut) <= 100)
    return sum(quad(integrand, low, high, epsabs=1e-13, epsrel=1e-11)[0] for low, high in pairwise(edges))


@settings(max_examples=60, deadline=None)
@given(evidence, evidence)
def test_it_equals_adaptive_quadrature_to_1e_9(a: tuple[int, int], b: tuple[int, int]) -> None:
    assert float(superiority(*a, *b)) == pytest.approx(adaptive(*a, *b), rel=0, abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 7, 2000])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_equal_evidence_is_a_toss_up(n: int, share: float) -> None:
    s = int(share * n)
    assert float(superiority(s, n, s, n)) == pytest.approx(0.5, rel=0, abs=1e-12)


def test_extremes_of_large_evidence_are_certain() -> None:
    assert float(superiority(2000, 2000, 0, 2000)) == pytest.approx(1, rel=0, abs=1e-12)
    assert float(superiority(0, 2000, 2000, 2000)) == pytest.approx(0, rel=0, abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(evidence, evidence)
def test_exchanging_the_actions_gives_the_complement(a: tuple[int, int], b: tuple[int, int]) -> None:
    assert float(superiority(*a, *b)) + float(superiority(*b, *a)) == pytest.approx(1, rel=0, abs=1e-9)


@settings(max_examples=200, deadline=None)
@given(evidence, evidence)
def test_one_more_success_makes_it_more_probable(a: tuple[int, int], b: tuple[int, int]) -> None:
    s, n = a
    less, more = float(superiority(s, n + 1, *b)), float(superiority(s + 1, n + 1, *b))
    assert more > less - 1e-9
    assert more > less or not 1e-6 < less < 1 - 1e-6


def test_arrays_broadcast_and_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    n = np.arange(1, 40)
    whole = superiority(n[:, None] // 2, n[:, None], n // 3, n)
    assert whole.shape == (39, 39)
    monkeypatch.setattr(posterior, "CHUNK", 100)
    assert np.array_equal(superiority(n[:, None] // 2, n[:, None], n // 3, n), whole)
    assert float(whole[10, 20]) == float(superiority(11 // 2, 11, 21 // 3, 21))


def test_no_comparison_gives_no_number() -> None:
    none = np.zeros(0, np.int64)
    assert superiority(none, none, none, none).shape == (0,)
