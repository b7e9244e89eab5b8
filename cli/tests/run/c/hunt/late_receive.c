/* Sends 30 messages to an end that always has one receive, and posts the next one when it has
 * looked at the message.
 *
 * The bug: after 10 ms it takes a message for received, and sends the next one, though the sender
 * does not wait for a receive (rnr_retry 0). Mended, the sender waits. */
#include "pair.h"

enum { MESSAGES = 30 };

#ifdef MENDED
enum { RNR_RETRY = 7 };
#else
enum { RNR_RETRY = 0 };
#endif

static void take(struct pair *p, const struct ibv_wc *wc, int number)
{
	succeeded(wc);
	if (p->slots[DEPTH][0] != number)
		fail("the wrong message arrived", p->slots[DEPTH][0]);
	post_receive(p, 1, DEPTH);
}

int main(void)
{
	struct pair *p = open_pair(7, RNR_RETRY, 14);
	struct ibv_wc wc;
	int received = 0, sent = 0;

	post_receive(p, 1, DEPTH);
	for (int i = 0; i < MESSAGES; i++) {
		p->slots[i][0] = (uint8_t)i;
		post_send(p, 0, i, 1);
		if (wait_a_little(p, 1, &wc, 10))
			take(p, &wc, received++);
	}
	while (received < MESSAGES || sent < MESSAGES) {
		if (poll(p, 1, &wc))
			take(p, &wc, received++);
		if (poll(p, 0, &wc)) {
			succeeded(&wc);
			sent++;
		}
	}
	return 0;
}
