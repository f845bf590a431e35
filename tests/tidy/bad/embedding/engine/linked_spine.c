/* linked_spine.c: a second way of a record: reads and applies by itself. */
int record_read(const void *at);
int table_push(const void *record);

int linked_spine(const void *at)
{
    return record_read(at) == 0 ? table_push(at) : 0;
}
