"""Ground floor: errors, random streams, the thread pool and the memory budget."""
