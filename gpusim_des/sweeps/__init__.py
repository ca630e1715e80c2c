"""Many configurations of one kernel: expressions and arguments as texts, keys, rows on disk, processes, tables."""
