/* test_broken.c: breaks the invariants of the journal on purpose: each breach must be caught by its
 * own assert. */
#include "embedding/journal/cursor.h"
#include "embedding/journal/journal_inner.h"
#include "tests/lib/broken.h"
#include "tests/lib/rig_dir.h"
#include "tests/lib/suite.h"

#include <check.h>

static char dir[LIMIT_PATH];

static struct journal *opened(void)
{
    struct journal *j;
    ck_assert_int_eq(journal_open(dir, 0, &j, NULL), 0);
    return j;
}

static struct journal *started(void)
{
    struct record_header h = {.kind = RECORD_RUN_DROP};
    struct journal *j = opened();
    ck_assert_int_eq(journal_start(j, 1, NULL), 0);
    ck_assert_int_eq(journal_append(j, &h, &(struct record_payload){{"", ""}, {0, 0}}, NULL), 0);
    return j;
}

static void a_record_is_written_where_no_head_was(void)
{
    struct journal *j = started();
    j->segment[j->count - 1].bytes = 0;
    journal_commit(j, NULL);
}

static void a_record_says_that_itself_is_synced(void)
{
    struct record_header h = {.kind = RECORD_RUN_DROP};
    struct journal *j = started();
    j->synced = j->next;
    journal_append(j, &h, &(struct record_payload){{"", ""}, {0, 0}}, NULL);
}

static void more_is_synced_than_was_written(void)
{
    struct journal *j = opened();
    struct journal_sync s = {.sequence = 1, .failed = &j->failed};
    ck_assert_int_eq(journal_start(j, 1, NULL), 0);
    journal_sync_end(j, &s, NULL);
}

static void a_record_comes_before_the_journal_has_begun(void)
{
    struct record_header h = {.kind = RECORD_RUN_DROP};
    journal_append(opened(), &h, &(struct record_payload){{"", ""}, {0, 0}}, NULL);
}

static void a_spare_ends_that_nobody_began(void)
{
    journal_spare_end(opened(), &(struct journal_spare){.status = 0});
}

static void a_file_is_used_whose_name_may_come_back(void)
{
    struct journal *j = started();
    ck_assert_int_eq(segment_free_add(j, 1), 0);
    segment_free_take(j);
}

static void a_record_has_pieces_that_it_is_not_read_in(void)
{
    struct record_header h = {.kind = RECORD_RUN_DROP};
    record_seal(&h, &(struct record_payload){{"ab", "c"}, {2, 1}});
}

static const struct broken list[] = {
    {"embedding/journal/journal.c", 1, a_record_is_written_where_no_head_was,
     "j->started && s->bytes >= SEGMENT_HEADER_BYTES"},
    {"embedding/journal/journal.c", 3, a_record_says_that_itself_is_synced, "j->synced < j->next"},
    {"embedding/journal/journal_sync.c", 1, more_is_synced_than_was_written, "s->sequence <= "},
    {"embedding/journal/segment.c", 3, a_file_is_used_whose_name_may_come_back,
     "usable > 0 && usable <= j->free_count"},
    {"embedding/journal/journal.c", 0, a_record_comes_before_the_journal_has_begun,
     "payload_bytes <= journal_payload_max(j) && "},
    {"embedding/journal/journal_sync.c", 0, a_spare_ends_that_nobody_began, "j->making"},
    {"embedding/journal/record.c", 0, a_record_has_pieces_that_it_is_not_read_in,
     "h->kind == RECORD_PUSH || "},
};

START_TEST(each_broken_invariant_ends_the_process_by_its_own_assert)
{
    rig_dir(dir);
    broken_check(list, sizeof list / sizeof list[0]);
    rig_remove_dir(dir);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("broken");
    tcase_add_test(suite_case(suite, "broken", 60, NULL, NULL),
                   each_broken_invariant_ends_the_process_by_its_own_assert);
    return suite_main(suite);
}
