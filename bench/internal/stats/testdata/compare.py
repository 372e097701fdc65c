# Makes compare.json, which the tests of comparisons agree with. It shares no code with
# the package: Student's distribution, chi-square and the signed ranks are SciPy's, small
# signed ranks with ties are enumerated over all signs, and the means of all pairs are
# written out and sorted. The medians of two runs are worked out a second time from the
# description of the method.
#
# Run as: python3 compare.py > compare.json
# Last run with Python 3.11.2, NumPy 1.24.2 and SciPy 1.10.1 (Debian: python3-scipy).

import itertools
import json
import math

import numpy as np
from scipy import optimize, stats

random = np.random.default_rng(20261201)


def student(p, df):
    """The quantile from SciPy's distribution; its own is good to nine digits only."""
    return optimize.brentq(lambda x: stats.t.cdf(x, df) - p, -2000, 2000, xtol=1e-14, rtol=1e-14)


def flips(d):
    """P of signed ranks at least as far up, and as far down, over all signs."""
    d = [x for x in d if x != 0]
    ranks = stats.rankdata(np.abs(d))
    up = sum(r for r, x in zip(ranks, d) if x > 0)
    down = sum(ranks) - up
    sums = [sum(r for r, s in zip(ranks, signs) if s) for signs in itertools.product([0, 1], repeat=len(d))]
    near = 1e-9
    return [float(np.mean([s >= up - near for s in sums])), float(np.mean([s >= down - near for s in sums]))]


def wilcoxon(d, mode):
    return [float(stats.wilcoxon(d, alternative=a, mode=mode, correction=mode == "approx").pvalue) for a in ("greater", "less")]


def centre(d, level):
    n = len(d)
    means = sorted((d[i] + d[j]) / 2 for i in range(n) for j in range(i, n))
    # The distribution of the sum of ranks, by hand.
    ways = {0: 1}
    for r in range(1, n + 1):
        more = dict(ways)
        for s, w in ways.items():
            more[s + r] = more.get(s + r, 0) + w
        ways = more
    out, missed = -1, 0.0
    for s in sorted(ways):
        if missed + ways[s] / 2**n > (1 - level) / 2 * (1 + 1e-9):
            break
        out, missed = s, missed + ways[s] / 2**n
    interval = [means[out], means[len(means) - 1 - out]] if out >= 0 else None
    return {"d": list(d), "level": level, "centre": float(np.median(means)), "interval": interval}


def run(x):
    x = np.array(x)
    n = len(x)
    sides = np.sign(x - np.median(x)) / 2
    b = min(max(int(math.sqrt(n / 2)), 10), 30)
    centred = sides - sides.mean()
    lag1 = (centred[1:] * centred[:-1]).sum() / (centred**2).sum()
    lag1 += (1 + 3 * lag1) / n  # Kendall's correction of the bias
    normal = math.sin(min(lag1, 1) * math.pi / 2)  # the correlation of normal samples with these sides
    if normal > 0:
        b = min(b, int(n / (8 * -1 / math.log(normal))))
    assert b >= 6
    each = [sides[i * n // b:(i + 1) * n // b].sum() for i in range(b)]
    spread = math.sqrt(max(n / 4, b * np.var(each, ddof=1)))
    logs = np.log(np.sort(x))

    def interval(z):
        ranks = np.array([(n - 1) / 2 - z * spread, (n - 1) / 2 + z * spread])
        if ranks[0] < 0:
            return -math.inf, math.inf
        return tuple(np.interp(ranks, np.arange(n), logs))

    return np.median(logs), interval, b


def medians(base, other, threshold):
    ma, ia, ba = run(base)
    mb, ib, bb = run(other)
    log = mb - ma

    def join(z):
        (la, ha), (lb, hb) = ia(z), ib(z)
        return log - math.hypot(mb - lb, ha - ma), log + math.hypot(hb - mb, ma - la)

    va, vb = ((ia(1)[1] - ia(1)[0]) / 2) ** 2, ((ib(1)[1] - ib(1)[0]) / 2) ** 2
    df = (va + vb) ** 2 / (va**2 / (ba - 1) + vb**2 / (bb - 1))
    lo, hi = join(stats.t.ppf(0.975, df))

    def p(shift, side):
        """One-sided p of the ratio lying beyond shift."""
        if (log - shift) * side <= 0:
            return 1.0
        gap = (lambda z: join(z)[0] - shift) if side > 0 else (lambda z: shift - join(z)[1])
        far = 40.0
        if not gap(far) <= 0:
            raise ValueError
        while not math.isfinite(gap(far)):
            far *= 0.999
        if gap(far) > 0:
            return float(stats.t.sf(far, df))
        return float(stats.t.sf(optimize.brentq(gap, 0, far, xtol=1e-12), df))

    t = math.log1p(threshold)
    step = 2**-23  # of float32, in which vendors hand out times: no less is a difference
    different = min(1.0, 2 * min(p(t + step, 1), p(-t - step, -1)))
    same = min(1.0, 2 * max(p(t - step, -1), p(-t + step, 1)))
    return {"base": list(map(float, base)), "other": list(map(float, other)), "threshold": threshold, "df": df,
            "ratio": math.exp(log), "interval": [math.exp(lo - step), math.exp(hi + step)], "different": different, "same": same}


def smooth(n, level, noise, phi=0.3):
    x, out = 0.0, []
    for _ in range(n):
        x = phi * x + noise * random.standard_normal()
        out.append(level * math.exp(x))
    return out


small = [list(map(float, random.normal(0.3, 1, n))) for n in (1, 2, 6, 9)]
tied = [list(map(float, np.round(random.normal(0.5, 2, n)))) for n in (6, 10, 12)]
exact = [list(map(float, random.normal(0.2, 1, n))) for n in (20, 45, 60)]
large = [list(map(float, random.normal(0.05, 1, n))) for n in (61, 200)] + [list(map(float, np.round(random.normal(0.3, 3, 150))))]

print(json.dumps({
    "student": [{"x": x, "df": df, "p": float(stats.t.cdf(x, df))} for x in (-40, -3.1, -0.5, 0, 0.7, 2.262, 12) for df in (1, 2.5, 9, 29, 137.25, 5000)],
    "quantiles": [{"p": p, "df": df, "x": student(p, df)} for p in (0.001, 0.025, 0.4, 0.5, 0.9, 0.975, 0.9995) for df in (1, 5, 9, 29.5, 400)],
    "chi": [{"p": p, "df": df, "x": float(stats.chi2.ppf(p, df))} for p in (0.05, 0.1, 0.9) for df in (5, 9, 29, 200)],
    "ranks": [{"d": d, "p": flips(d)} for d in small + tied] + [{"d": d, "p": wilcoxon(d, "exact")} for d in exact] + [{"d": d, "p": wilcoxon(d, "approx")} for d in large],
    "centres": [centre(d, level) for d in small + exact for level in (0.5, 0.95, 0.999)],
    "medians": [medians(smooth(na, 1000, 0.01), smooth(nb, 1000 * r, 0.01), 0.01)
                for na, nb, r in ((120, 120, 1.0), (200, 150, 1.02), (500, 2000, 0.985), (300, 300, 1.012))]
               + [medians(smooth(400, 1000, 0.01, 0.8), smooth(600, 1015, 0.01, 0.8), 0.01)],
}))
