// Writes blocks to a disk over iSCSI, reads them back, and compares them with each other and with
// the file of the target's disk.
//
//   iscsi URL FILE
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, BLOCKS = 128, BYTES = BLOCK * BLOCKS, STEPS = 16 };

static void require(int condition, const char *what, struct iscsi_context *iscsi)
{
	if (condition)
		return;
	fprintf(stderr, "%s: %s\n", what, iscsi ? iscsi_get_error(iscsi) : "");
	exit(1);
}

int main(int count, char **arguments)
{
	require(count == 3, "usage: iscsi URL FILE", NULL);
	struct iscsi_context *iscsi = iscsi_create_context("iqn.2026-01.example:client");
	require(iscsi != NULL, "no context", NULL);
	struct iscsi_url *url = iscsi_parse_full_url(iscsi, arguments[1]);
	require(url != NULL, "no URL", iscsi);
	require(iscsi_init_transport(iscsi, url->transport) == 0, "no transport", iscsi);
	iscsi_set_targetname(iscsi, url->target);
	iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL);
	iscsi_set_header_digest(iscsi, ISCSI_HEADER_DIGEST_NONE);
	require(iscsi_full_connect_sync(iscsi, url->portal, url->lun) == 0, "no session", iscsi);
	static unsigned char wrote[STEPS][BYTES], kept[BYTES];
	for (int step = 0; step < STEPS; step++) {
		for (int i = 0; i < BYTES; i++)
			wrote[step][i] = (unsigned char)(i * 5 + (i >> 9) + step * 11 + 1);
		struct scsi_task *task = iscsi_write10_sync(iscsi, url->lun, step * BLOCKS, wrote[step], BYTES, BLOCK,
							    0, 0, 0, 0, 0);
		require(task && task->status == SCSI_STATUS_GOOD, "a write fails", iscsi);
		scsi_free_scsi_task(task);
	}
	FILE *file = fopen(arguments[2], "rb");
	require(file != NULL, "the file can't be opened", NULL);
	for (int step = 0; step < STEPS; step++) {
		struct scsi_task *task = iscsi_read10_sync(iscsi, url->lun, step * BLOCKS, BYTES, BLOCK, 0, 0, 0, 0, 0);
		require(task && task->status == SCSI_STATUS_GOOD, "a read fails", iscsi);
		require(task->datain.size == BYTES, "a read is short", iscsi);
		require(memcmp(task->datain.data, wrote[step], BYTES) == 0, "a read brings other bytes", iscsi);
		scsi_free_scsi_task(task);
		require(fread(kept, 1, BYTES, file) == BYTES, "the file is short", NULL);
		require(memcmp(kept, wrote[step], BYTES) == 0, "the file has other bytes", NULL);
	}
	iscsi_logout_sync(iscsi);
	iscsi_destroy_url(url);
	iscsi_destroy_context(iscsi);
	printf("%d bytes written, read and compared\n", STEPS * BYTES);
	return 0;
}
