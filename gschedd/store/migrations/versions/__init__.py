"""One file a step, in a line: each names the one before it in `down_revision`. A released step is never edited."""
