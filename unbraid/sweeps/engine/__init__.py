"""Running a sweep: jobs, claims, results, the scheduler and local workers."""
