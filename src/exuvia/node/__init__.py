"""The composition root: the only place that joins real parts and starts threads and processes."""
