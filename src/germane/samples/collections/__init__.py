"""Collections that people have, as samples: one reader for each shape. BEIR's folder is read by `germane.samples.reading`."""
