"""Running a sweep: claims, results, the scheduler and the local workers."""
