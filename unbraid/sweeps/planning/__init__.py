"""Planning a sweep: the sweep file, its settings, the run names, the plan and the cost estimate."""
