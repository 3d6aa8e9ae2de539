"""Every query that pages, metrics and commands make, a module per page group. None selects payload or detail."""
