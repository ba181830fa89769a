// expect: gx: 'Bucketed' of a reducer with error feedback
// expect: Fix: leave out 'Bucketed'
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/error_feedback.hpp>

gx::Bucketed<gx::testing::ErrorFeedback<gx::Ring<gx::fp16>>, 1024> reducer;
