# UCX finds the devices and both of its transports.
ucx_info -d
