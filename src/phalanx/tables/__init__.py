"""Lance datasets: the only part that knows lance."""
