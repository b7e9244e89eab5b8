//! What a frame needs to know of the network that it is sent on: the source address,
//! the next hop and its Ethernet address, and the headers from Ethernet to UDP.
