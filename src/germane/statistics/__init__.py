"""Statistics on arrays: intervals, paired comparison, power, agreement and correction with labels.

All functions are pure functions of numpy arrays: they read no file, table or judge. Those that need
randomness take a seed. The modules, each of which uses only those before it:

- distributions: distribution functions and quantiles (beta, Student's t, normal);
- intervals: the confidence interval of a mean over cases, by the method that suits the values;
- comparison: the difference of two systems, decisions, detectable differences, the best of several systems,
  the similarity of ranked lists;
- correction: which items to have labelled, and judged means corrected with people's labels;
- differences: differences of two judged systems corrected with people's labels;
- agreement: the agreement of a judge with people, and with its own earlier verdicts.
"""
