// Faults of simulated runs: values, validation and injection.
#pragma once

#include <gx/sim/fault/validate.hpp>      // check_faults, expect_faults
#include <gx/sim/fault/injector.hpp>      // makes a FaultPlan of a FaultList
#include <gx/sim/fault/fault_values.hpp>  // Fault, FaultList, FaultClass
