"""One file per schema revision, never edited after it has been released."""
