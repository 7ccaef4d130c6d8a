"""Statistics on arrays: intervals, paired comparison, power, agreement and correction with labels.

Everything here is a pure function of numpy arrays: no file, no table, no judge. What needs randomness takes a seed or
a generator. Modules, each on those before it:

- distributions: beta, Student's t and normal distribution functions and quantiles;
- intervals: the interval of a mean over cases;
- comparison: difference of two systems over the same cases, the decision against a margin, what can be detected;
- ranking: two ranked lists against each other;
- agreement: a judge against people;
- correction: judged means corrected with labels;
- sampling: what to have labelled.
"""
