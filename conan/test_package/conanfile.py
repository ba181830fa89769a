# Builds a small consumer against the package, and runs it.
from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class GxTest(ConanFile):
    settings = "os", "compiler", "build_type", "arch"
    generators = "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        options = self.dependencies["gx"].options
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["GX_COMPONENTS"] = ";".join(
            name for name in ("sim", "reference", "onednn") if options.get_safe(f"with_{name}"))
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            program = Path(self.build_folder) / self.cpp.build.bindir / "consumer"
            self.run(str(program.resolve()), env="conanrun")
