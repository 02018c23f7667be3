"""Measures of the distance between a word's usages in two slices, each with its interval.

Shapes: n usages of a slice, W width of their vectors, K senses, R rows: the sample itself, then the resamples of it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.search import Interval
from bertfeat.study.change_results import SliceDistance

Reals = NDArray[np.float64]

_RESAMPLES = 1000
_TAILS = (97.5, 2.5)  # percentiles of the resamples, for an interval of 95 %
_LEAST_COSINE = 1e-3


@dataclass(frozen=True, slots=True)
class SliceMeans:
    """The means of a slice and of its resamples, from which the measures are computed."""

    name: str
    vectors: Reals  # [R, W] mean of the usages' vectors of length 1
    senses: Reals  # [R, K] share of the usages that each sense has


def mean_usages(
    name: str, units: NDArray[np.float32], labels: NDArray[np.integer], senses: int, random: np.random.Generator
) -> SliceMeans:
    """The means of a slice and of resamples of it, from ``units [n, W]`` of length 1 and their senses ``labels [n]``.

    A resample draws n of the n usages with replacement; the usages keep their senses.
    """
    number = len(units)
    drawn = random.multinomial(number, np.full(number, 1 / number), _RESAMPLES)
    weights = np.concatenate([np.ones((1, number)), drawn]) / number
    return SliceMeans(name, weights @ units.astype(np.float64), weights @ np.eye(senses)[labels])


def measure_distance(one: SliceMeans, other: SliceMeans) -> SliceDistance:
    """The measures between two slices."""
    return SliceDistance(
        one.name,
        other.name,
        prt=_interval(inverted_similarity(one.vectors, other.vectors), 1.0, 1 / _LEAST_COSINE),
        apd=_interval(average_pairwise_distance(one.vectors, other.vectors), 0.0, 2.0),
        jsd=_interval(sense_divergence(one.senses, other.senses), 0.0, 1.0),
    )


def average_pairwise_distance(one: Reals, other: Reals) -> Reals:
    """APD with cosine distance (Giulianelli, Del Tredici and Fernández 2020, arXiv:2004.14118): ``[R]``, 0 to 2.

    The mean cosine over all pairs of usages is the dot product of the means of their vectors of length 1.
    """
    distance: Reals = 1 - (one * other).sum(axis=1)
    return distance


def inverted_similarity(one: Reals, other: Reals) -> Reals:
    """PRT, 1 / cosine of the prototypes (Kutuzov and Giulianelli 2020, arXiv:2005.00050): ``[R]``, from 1 on.

    Cosines below 0.001 count as 0.001.
    """
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosines = np.divide((one * other).sum(axis=1), lengths, out=np.zeros(len(one)), where=lengths > 0)
    inverted: Reals = 1 / np.clip(cosines, _LEAST_COSINE, 1)
    return inverted


def sense_divergence(one: Reals, other: Reals) -> Reals:
    """JSD of the senses' shares, base 2 (Giulianelli, Del Tredici and Fernández 2020): ``[R]``, 0 to 1."""
    return _entropy((one + other) / 2) - (_entropy(one) + _entropy(other)) / 2


def _entropy(shares: Reals) -> Reals:
    logarithms = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    entropy: Reals = -(shares * logarithms).sum(axis=1)
    return entropy


def _interval(values: Reals, least: float, greatest: float) -> Interval:
    """The basic bootstrap interval (Davison and Hinkley 1997, equation 5.6), within the bounds of the measure.

    Resamples lie further apart than the samples that they are drawn from; the basic interval corrects for that.
    """
    low, high = np.clip(2 * values[0] - np.percentile(values[1:], _TAILS), least, greatest)
    return Interval(*(round(float(value), 6) for value in (np.clip(values[0], least, greatest), low, high)))
