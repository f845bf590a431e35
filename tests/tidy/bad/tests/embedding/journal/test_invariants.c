/* test_invariants.c: a case that an invariant names. */
START_TEST(invariants_hold)
{
}
END_TEST
