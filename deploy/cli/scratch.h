/* scratch.h: temporary folders of a command, in places that many processes share. A folder left by
 * a killed command is removed by the next command that makes such a folder there.
 *
 * A folder has a file that its maker keeps locked while it lives. The folder is removed only when
 * that file exists and its lock is free, and when folder and file belong to this user and no other
 * user may write there. Links are not followed.
 * [test: folders_of_who_was_killed_go_with_the_next] */
#ifndef DEPLOY_CLI_SCRATCH_H
#define DEPLOY_CLI_SCRATCH_H

/* path: PLACE/NAME-XXXXXX, as for mkdtemp. The lock is held until the process ends. -1 with errno:
 * no folder was made. */
int scratch_make(char *path);
/* Keeps the folder after the process has ended. */
void scratch_keep(const char *path);

#endif
