"""The read path: words, lexical index, scope index, ranking, search."""
