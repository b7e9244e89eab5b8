/* Makes each mistake, or those that the arguments name: two new processes for each, at most four
 * mistakes at a time. */

#include "ends.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { AT_ONCE = 4, MOST = 256 };

static const struct mistake *const THEMES[] = { CONNECTIONS, SILENCE, DATAGRAMS, REMOTE_MEMORY, OWN_MEMORY,
						WINDOWS,     RECEIVES, CALLS };

/* Runs the part of one end in a new process. It is killed with this one. */
static pid_t start(const struct mistake *mistake, int is_client, const int sockets[2])
{
	pid_t parent = getpid(), child = fork();
	struct end end = { .name = mistake->name, .is_client = is_client };
	char line[sizeof(end.notes) + 256];
	int length;

	CHECK(child >= 0);
	if (child)
		return child;
	CHECK(!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent);
	end.socket = sockets[is_client];
	close(sockets[!is_client]);
	(is_client ? mistake->client : mistake->server)(&end);
	/* A call that takes the device's lock, so that whatever the QP has to report is written. */
	if (end.qp)
		ibv_destroy_qp(end.qp);
	length = snprintf(line, sizeof(line), "%s %s pid=%d qpn=0x%06x psn=0x%06x%s\n", mistake->name,
			  is_client ? "client" : "server", getpid(), end.own.qpn, end.own.psn, end.notes);
	CHECK(write(STDOUT_FILENO, line, length) == length);
	_exit(0);
}

/* Waits until a child ends. Returns whether it was good. */
static int finish_one(void)
{
	int status;

	CHECK(wait(&status) > 0);
	/* Some ends are killed by their own mistake. */
	return (WIFEXITED(status) && !WEXITSTATUS(status)) ||
	       (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* Starts both ends. Returns the number of processes. */
static int start_ends(const struct mistake *mistake)
{
	int sockets[2], started = 1;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets));
	start(mistake, 1, sockets);
	if (mistake->server) {
		start(mistake, 0, sockets);
		started++;
	}
	close(sockets[0]);
	close(sockets[1]);
	return started;
}

static int is_wanted(const char *name, char **names)
{
	if (!*names)
		return 1;
	while (*names)
		if (!strcmp(name, *names++))
			return 1;
	return 0;
}

int main(int count, char **arguments)
{
	int running = 0, good = 1;

	(void)count;
	for (size_t i = 0; i < sizeof(THEMES) / sizeof(*THEMES); i++)
		for (const struct mistake *mistake = THEMES[i]; mistake->name; mistake++) {
			if (!is_wanted(mistake->name, arguments + 1))
				continue;
			for (; running > 2 * (AT_ONCE - 1); running--)
				good &= finish_one();
			running += start_ends(mistake);
		}
	for (const struct mistake *mistake = ALONE; mistake->name; mistake++) {
		for (; running; running--)
			good &= finish_one();
		if (is_wanted(mistake->name, arguments + 1))
			running += start_ends(mistake);
	}
	for (; running; running--)
		good &= finish_one();
	return !good;
}
