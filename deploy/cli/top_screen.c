/* top_screen.c: the screen of `shoal top`. ncurses keeps what the terminal shows, writes only what
 * has changed, and turns a changed size (SIGWINCH) into a key. */
#include "deploy/cli/top.h"

#include "proto/base/minmax.h"

#include <locale.h>
#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct top_screen {
    SCREEN *screen;
    bool colours;
    size_t first; /* the line at the top */
};

static const char HELP[] = "q quit   sort: l load  n name  m memory  r rows   arrows scroll";

int top_screen_open(struct top_screen **out, struct err *e)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    struct top_screen *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the screen");
    (void)setlocale(LC_CTYPE, ""); /* names may have any letters; numbers stay as they are */
    s->screen = newterm(NULL, stdout, stdin);
    if (s->screen == NULL) {
        free(s);
        return err_set(e, SHOAL_E_CONFIG,
                       "the terminal %s is not known: set TERM (xterm, linux, ..), or use --batch",
                       term != NULL ? term : "(TERM is not set)");
    }
    (void)cbreak();
    (void)noecho();
    (void)keypad(stdscr, TRUE);
    (void)curs_set(0);
    s->colours = (no == NULL || no[0] == '\0') && has_colors() && start_color() == OK;
    if (s->colours) {
        (void)use_default_colors();
        (void)init_pair(TOP_BAD, COLOR_RED, -1);
        (void)init_pair(TOP_GOOD, COLOR_GREEN, -1);
    }
    *out = s;
    return 0;
}

void top_screen_close(struct top_screen *s)
{
    if (s == NULL)
        return;
    (void)endwin();
    delscreen(s->screen);
    free(s);
}

size_t top_screen_width(const struct top_screen *s)
{
    (void)s;
    return (size_t)MAX(COLS, TOP_WIDTH_MIN);
}

/* Rows for lines: the last row has the help. */
static size_t rows(void)
{
    return (size_t)MAX(LINES - 1, 1);
}

static chtype attribute_of(const struct top_screen *s, enum top_kind kind)
{
    if (kind == TOP_HEAD)
        return A_BOLD;
    if (kind == TOP_PLAIN)
        return A_NORMAL;
    if (!s->colours)
        return kind == TOP_BAD ? A_BOLD : A_NORMAL;
    return (chtype)COLOR_PAIR(kind);
}

static void row_show(int row, const char *text, chtype attribute)
{
    (void)attrset((int)attribute);
    (void)mvaddnstr(row, 0, text, -1);
    (void)clrtoeol();
}

void top_screen_show(struct top_screen *s, const struct top_lines *l)
{
    char help[TOP_WIDTH_MAX + 1];
    size_t last = SAT_SUB(l->count, rows());
    s->first = MIN(s->first, last);
    for (size_t i = 0; i < rows(); i++) {
        const struct top_line *line = NULL;
        if (s->first + i < l->count)
            line = &l->line[s->first + i];
        row_show((int)i, line != NULL ? line->text : "",
                 attribute_of(s, line != NULL ? line->kind : TOP_PLAIN));
    }
    (void)snprintf(help, sizeof help, "%.*s", COLS, HELP);
    row_show(LINES - 1, help, A_REVERSE);
    (void)attrset(A_NORMAL);
    (void)refresh();
}

static void scroll_by(struct top_screen *s, const struct top_lines *l, bool down, size_t lines)
{
    s->first = down ? s->first + lines : SAT_SUB(s->first, lines);
    top_screen_show(s, l);
}

enum top_key top_screen_wait(struct top_screen *s, const struct top_lines *l, int wait_ms,
                             enum top_sort *sort)
{
    static const char order[] = {'l', 'n', 'm', 'r'}; /* as enum top_sort */
    timeout(wait_ms);
    int key = getch();
    switch (key) {
    case 'q':
    case 'Q':
        return TOP_QUIT;
    case KEY_RESIZE:
        (void)erase();
        return TOP_RESIZED;
    case KEY_DOWN:
    case KEY_UP:
        scroll_by(s, l, key == KEY_DOWN, 1);
        return TOP_NONE;
    case KEY_NPAGE:
    case KEY_PPAGE:
    case ' ':
        scroll_by(s, l, key != KEY_PPAGE, rows());
        return TOP_NONE;
    default:
        break;
    }
    for (size_t i = 0; i < sizeof order; i++)
        if (key == order[i]) {
            *sort = (enum top_sort)i;
            return TOP_SORT;
        }
    return TOP_NONE;
}
