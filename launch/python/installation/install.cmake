# cmake --install: the program, its scripts with their modules, models, pages and completions. docs/install.md says what is where.
include(GNUInstallDirs)
set(data ${CMAKE_INSTALL_DATADIR}/yamata)
set(made ${CMAKE_BINARY_DIR}/installed)
set(installed_scripts batch chat cluster draw-trace emulate experiment get-model heads-to-gguf inflate plot plot-roofline serve slurm
  train-heads write-texts)

install(TARGETS yamata RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS emulated-switch RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/yamata)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/models DESTINATION ${data} FILES_MATCHING PATTERN *.gguf PATTERN *.safetensors PATTERN *.md)
foreach(page README.md CHANGELOG.md LICENSE)
  install(FILES ${CMAKE_SOURCE_DIR}/${page} DESTINATION ${CMAKE_INSTALL_DOCDIR})
endforeach()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The scripts find their modules and models beside them, and the programs by installed.py. A link in bin/ has the prefix yamata-.
list(TRANSFORM installed_scripts PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE script_files)
install(PROGRAMS ${script_files} ${CMAKE_CURRENT_SOURCE_DIR}/install-packages DESTINATION ${data}/launch)
install(DIRECTORY python emulation DESTINATION ${data}/launch FILES_MATCHING PATTERN *.py PATTERN *.html PATTERN *.css
  PATTERN *.js PATTERN *.sh PATTERN *.pl PATTERN installation EXCLUDE)
install(DIRECTORY experiments DESTINATION ${data}/launch)
set(full_data ${CMAKE_INSTALL_FULL_DATADIR}/yamata)
file(RELATIVE_PATH to_programs ${full_data} ${CMAKE_INSTALL_FULL_BINDIR})
file(RELATIVE_PATH to_helpers ${full_data} ${CMAKE_INSTALL_FULL_LIBEXECDIR}/yamata)
file(WRITE ${made}/installed.py "PROGRAM = '${to_programs}'\nHELPERS = '${to_helpers}'\n")
install(FILES ${made}/installed.py DESTINATION ${data}/launch/python/common)
file(RELATIVE_PATH to_data ${CMAKE_INSTALL_FULL_BINDIR} ${full_data})
file(MAKE_DIRECTORY ${made}/bin)
foreach(script ${installed_scripts})
  file(CREATE_LINK ${to_data}/launch/${script} ${made}/bin/yamata-${script} SYMBOLIC)
endforeach()
install(DIRECTORY ${made}/bin/ DESTINATION ${CMAKE_INSTALL_BINDIR})

# Man pages and completions say what --help prints, so the program must run here, in an emulator if it is for other machines.
set(runnable $<TARGET_FILE:yamata>)
if(CMAKE_CROSSCOMPILING)
  set(runnable ${made}/run-yamata)
  file(GENERATE OUTPUT ${runnable} CONTENT "#!/bin/sh\nexec ${CMAKE_CROSSCOMPILING_EMULATOR} '$<TARGET_FILE:yamata>' \"$@\"\n"
    FILE_PERMISSIONS OWNER_READ OWNER_EXECUTE)
endif()
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  set(writer ${CMAKE_CURRENT_SOURCE_DIR}/python/installation/write.py)
  install(CODE "
    set(data \"${data}\")
    set(documents \"${CMAKE_INSTALL_DOCDIR}\")
    foreach(folder data documents)
      if(NOT IS_ABSOLUTE \"\${\${folder}}\")
        set(\${folder} \"\${CMAKE_INSTALL_PREFIX}/\${\${folder}}\")
      endif()
    endforeach()
    execute_process(COMMAND \"${Python3_EXECUTABLE}\" \"${writer}\" \"${made}/pages\" \"${runnable}\" \"${PROJECT_VERSION}\"
      \"\${data}\" \"\${documents}\" ${script_files} COMMAND_ERROR_IS_FATAL ANY)")
  install(DIRECTORY ${made}/pages/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(DIRECTORY ${made}/pages/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(DIRECTORY ${made}/pages/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(DIRECTORY ${made}/pages/fish/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
