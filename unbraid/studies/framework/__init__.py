"""Framework of the studies: claims, arms, runner, effects, verdicts, pages and plots."""
