// expect: a sentence that no compiler prints
static_assert(false, "gx: another sentence");
