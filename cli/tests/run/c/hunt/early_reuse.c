/* Sends 50 messages from one buffer.
 *
 * The bug: after 20 ms it takes a message for sent, and fills the buffer with the next one, though
 * the message may have to be sent again. Mended, it waits for the completion. */
#include "pair.h"

enum { MESSAGES = 50 };

int main(void)
{
	struct pair *p = open_pair(7, 7, 14);
	struct ibv_wc wc;
	int completed = 0;

	for (int i = 0; i < MESSAGES; i++)
		post_receive(p, 1, DEPTH + i);
	for (int i = 0; i < MESSAGES; i++) {
		memset(p->slots[0], i + 1, BYTES);
		post_send(p, 0, 0, BYTES);
#ifdef MENDED
		while (!poll(p, 0, &wc))
			;
#else
		if (!wait_a_little(p, 0, &wc, 20))
			continue;
#endif
		succeeded(&wc);
		completed++;
	}
	while (completed < MESSAGES) {
		if (!poll(p, 0, &wc))
			continue;
		succeeded(&wc);
		completed++;
	}
	for (int i = 0; i < MESSAGES; i++)
		for (int at = 0; at < BYTES; at++)
			if (p->slots[DEPTH + i][at] != i + 1)
				fail("a message has the bytes of a later one", i);
	return 0;
}
