/* page.h: the status page: HTML made from the figures of job/picture.h, or, for a coordinator that
 * stands by, from {"stands_by": where the leader is, empty if unknown; "why": the store's error,
 * empty if there is none}. Read only, complete without its script, which fetches the page again
 * every two seconds and changes what differs, so that what is unfolded, moved, selected or in focus
 * stays; without scripts the browser loads it again every ten seconds. No resource from elsewhere:
 * page.html, which has the style and the script, names their hashes in its Content-Security-Policy,
 * and nothing else may run.
 *
 * Every text of the figures is a stranger's (names of jobs, servers, tables; errors): it is written
 * by html_text alone, which escapes it, and never into a script, a style or an address. Figures
 * that are absent are left out. Pure: it reads no clock and no state; the thread that serves HTTP
 * calls it.
 *
 *     page.c: the document, what is wrong    page_job.c: job, curves, time; the jobs before it
 *     page_fleet.c: map, servers    page_copies.c, page_workers.c
 *     html.h: texts    page_table.c: tables    page_chart.c: lines and bars as SVG */
#ifndef SERVER_COORD_PAGE_PAGE_H
#define SERVER_COORD_PAGE_PAGE_H

#include <stddef.h>
#include <stdio.h>

struct page_figures {
    const char *text; /* JSON (bytes); NULL: none yet */
    size_t bytes;
    double age_s; /* since they were made */
};

void page_write(const struct page_figures *f, FILE *out);

#endif
