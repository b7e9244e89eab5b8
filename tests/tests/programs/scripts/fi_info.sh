# libfabric finds the endpoints of this stack.
fi_info -p verbs
