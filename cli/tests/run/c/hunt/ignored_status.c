/* Sends 100 messages over a connection that gives up at the first loss (retry_cnt 0).
 *
 * The bug: it takes each completion for a success, those with an error and those of flushed
 * requests, too. Mended, it connects again after an error, and sends what was not acknowledged. */
#include "pair.h"

enum { MESSAGES = 100 };

int main(void)
{
	struct pair *p = open_pair(0, 7, 16);
	struct ibv_wc wc;
	int sent = 0;

	for (int i = 0; i < MESSAGES; i++)
		memset(p->slots[i], i + 1, BYTES);
	while (sent < MESSAGES) {
		connect_pair(p);
		/* A message that arrived and was not acknowledged arrives again, in the same place. */
		for (int i = sent; i < MESSAGES; i++)
			post_receive(p, 1, DEPTH + i);
		for (int i = sent; i < MESSAGES; i++)
			post_send(p, 0, i, BYTES);
		while (sent < MESSAGES) {
			while (!poll(p, 0, &wc))
				;
#ifdef MENDED
			if (wc.status != IBV_WC_SUCCESS)
				break;
#endif
			sent++;
		}
	}
	for (int i = 0; i < MESSAGES; i++)
		if (memcmp(p->slots[DEPTH + i], p->slots[i], BYTES))
			fail("a message counts as sent, and has not arrived", i);
	return 0;
}
