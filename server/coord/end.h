/* end.h: the end of a job. Any part of the coordinator may find that it cannot go on: this is
 * below them all, and takes back what they have begun. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_END_H
#define SERVER_COORD_END_H

struct coord;

/* Ends the job with a status and a sentence; nothing when it is over already. */
void coord_end_fail(struct coord *c, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Marks and cuts of the job go; nobody waits for that, but for rows of a checkpoint that not all
 * servers could load: they go before another job begins (flow.c), so that the same restore
 * can be tried again. */
void coord_end_tidy(struct coord *c);

#endif
