"""Planning a sweep: grid, plan, run names, cost estimate and the sweep file."""
