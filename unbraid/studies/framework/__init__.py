"""What every study uses: claims, arms, runner, effects, verdicts, pages and plots."""
