// Faults of simulated runs: the values, whether they can be, and what carries them out.
#pragma once

#include <gx/sim/fault_check.hpp>     // check_faults, expect_faults
#include <gx/sim/fault_injector.hpp>  // makes a FaultPlan of a FaultList
#include <gx/sim/fault_values.hpp>    // Fault, FaultList, FaultClass
