reset all
