/* own_rule_row.h: two additional rules, for every source that test_own_rule.c is built from. */
#define ROW_RULES_OWN(U32, F32) U32(own_days) F32(own_share)
#define CHANGE_own_days SCHEMA_STAYS
#define CHANGE_own_share SCHEMA_TURNS
