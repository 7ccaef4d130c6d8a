"""Statistics on arrays: intervals, paired comparison, power, agreement and correction with labels.

All functions are pure functions of numpy arrays: they read no file, table or judge. Those that need
randomness take a seed or a generator. The modules, each of which uses only those before it:

- distributions: distribution functions and quantiles (beta, Student's t, normal);
- intervals: the confidence interval of a mean over cases;
- comparison: the difference of two systems on the same cases, decisions, detectable differences;
- ranking: the similarity of two ranked lists;
- agreement: the agreement of a judge with people;
- correction: judged means corrected with people's labels;
- sampling: which items to have labelled.
"""
