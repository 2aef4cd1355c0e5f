"""One file per table; `find` reads them."""
