//! Phrases that mean something at the beginning of a clause, or anywhere in it.

pub(super) const SAFETY: &str = "
    emergency|this is an emergency|safety issue|safety incident|safety alert|safety problem|safety|danger|dangerous
    security incident|security breach|security alert|data breach|data leak|we have been hacked|weve been hacked
    we have been breached|credentials leaked|credentials were leaked|secrets leaked|somebody is in danger
    someone is in danger|🚨|☢|☣
    notfall|sicherheitsvorfall|gefahr|urgence|incident de sécurité|danger|emergencia|incidente de seguridad|peligro
    emergência|incidente de segurança|perigo|emergenza|incidente di sicurezza|pericolo|noodgeval
    beveiligingsincident|gevaar|nagły wypadek|incydent bezpieczeństwa|niebezpieczeństwo
    авария|чрезвычайная ситуация|инцидент безопасности|опасность|надзвичайна ситуація|інцидент безпеки|небезпека
    acil durum|güvenlik olayı|tehlike|紧急情况|緊急情況|安全事故|危险|緊急事態|セキュリティ事故|危険|비상|비상사태
    보안 사고|위험|आपातकाल|आपातस्थिति|खतरा|طوارئ|حالة طوارئ|خطر";

/// Orders to stop or to cancel something that is named. They are orders like others: only a stop word alone stops.
pub(super) const STOP_ORDERS: &str = "
    stop the|stop this|stop that|stop it|stop all|stop everything|stop working|stop doing|stop what|stop your
    stop any|stop now|stop immediately|stop deploying|stop running|stop posting|stop sending|stop replying
    stop writing|stop talking|stop responding
    cancel the|cancel this|cancel that|cancel it|cancel all|cancel my|cancel your|cancel everything|cancel any
    abort the|abort this|abort that|abort it|abort all|halt the|halt all|halt everything
    forget about the|forget the|disregard the|disregard my|ignore my last|ignore my previous|dont do|do not do
    dont proceed|do not proceed|dont deploy|do not deploy
    brich den|brich die|brich das|stopp den|stopp die|stopp das|hör auf mit|arrête le|arrête la|arrête de
    arrête tout|annule le|annule la|para el|para la|para de|cancela el|cancela la|cancela o|cancela a|ferma il
    ferma la|annulla il|annulla la|stop met|annuleer de|annuleer het|zatrzymaj|anuluj|останови|отмени|прекрати
    зупини|скасуй|припини
    stoppt den|stoppt die|stoppt das|arrêtez le|arrêtez la|annulez le|annulez la|parad el|parad la|停掉|停止|取消";

pub(super) const OFFERING: &str = "
    let me know if|let me know whether|let me know which|let me know when|tell me if|tell me whether|tell me which
    if you want|if you like|if you'd like|if you wish|if you prefer|if you agree|want me to|would you like me to
    i can also|i could also|i'd be happy to|i'm happy to|just say so|say the word|your call|it's up to you
    waiting for your answer|waiting for your reply|waiting for your decision
    sag bescheid|gib bescheid|sag mir ob|sag mir wenn|sag mir welche|wenn du willst|wenn du möchtest|wenn sie möchten
    wenn sie wollen|falls du möchtest|falls du willst|falls gewünscht|auf wunsch|ich kann auch|ich könnte auch|soll ich
    si quieres|si lo deseas|si lo prefieres|si te parece|avísame si|dime si|también puedo|puedo también
    si tu veux|si vous voulez|si tu le souhaites|si vous le souhaitez|dis-moi si|dites-moi si|je peux aussi
    je pourrais aussi
    se vuoi|se preferisci|dimmi se|fammi sapere se|posso anche|se quiser|se você quiser|me diga se|me avise se
    também posso|als je wilt|laat me weten of|zeg het als|ik kan ook|jeśli chcesz|daj znać czy|mogę też
    если хотите|если хочешь|скажите если|скажи если|дайте знать|дай знать|могу также|могу ещё
    якщо хочеш|якщо хочете|скажи якщо|дай знати|можу також|istersen|isterseniz|haber ver
    如果你想|如果您想|如果需要|如果你需要|如果您需要|如果你愿意|需要的话|要不要|我也可以|我还可以
    よろしければ|ご希望でしたら|ご希望なら|必要なら|必要であれば|必要でしたら|お知らせください|원하시면|원하면|필요하면
    알려주세요|알려 주세요|अगर आप चाहें|बताइए|إذا أردت|أخبرني إذا";

pub(super) const CLOSING_WORDS: &str = "
    let me know if you need anything|let me know if you need any|let me know if you need more
    let me know if you need further|let me know if you have any|let me know if you have questions
    let me know if there is anything|let me know if there's anything|let me know if anything
    let me know if something|let me know if you run into|let me know if you see|tell me if you need anything
    tell me if anything|tell me if something|if you want to know|i'm happy to help|i'd be happy to help
    sag bescheid wenn du noch|sag bescheid wenn etwas|sag bescheid falls du noch|sag bescheid falls etwas
    sag bescheid wenn ich noch|gib bescheid wenn etwas|gib bescheid falls etwas
    avísame si necesitas|avísame si tienes|avísame si algo|dime si necesitas|dime si tienes
    dis-moi si tu as besoin|dites-moi si vous avez besoin|dis-moi si tu as|dites-moi si vous avez
    fammi sapere se hai|dimmi se hai|me avise se precisar|me diga se precisar|дайте знать если что|дай знать если что
    如果需要帮助|如果你需要帮助|如果您需要帮助";

pub(super) const APPROVAL_REQUESTS: &str = "
    may i|can i|shall i|should i|could i|shall we|ok to|okay to|ok if i|okay if i|is it ok|is it okay|is it ok if
    permission to|requesting permission|requesting approval|request for approval|approval request|approval needed
    approval required|needs approval|need approval|need your approval|i need your approval|i need approval
    waiting for approval|waiting for your approval|awaiting approval|awaiting your approval|do you approve
    please approve|pls approve|can you approve|could you approve|do i have permission|am i allowed
    darf ich|soll ich|bitte genehmigen|bitte um freigabe|freigabe erbeten|puis-je|dois-je|merci d'approuver|puedo
    debo|solicito aprobación|posso|devo|solicito aprovação|chiedo approvazione|mag ik|zal ik|graag goedkeuring
    czy mogę|mogę|proszę o zatwierdzenie|можно ли мне|можно мне|прошу одобрить|прошу согласовать|чи можу я
    можна мені|прошу погодити|yapabilir miyim|onaylar mısın|onayınızı bekliyorum|我可以|请批准|請批准|请审批
    してもいいですか|承認をお願いします|承認お願いします|승인 부탁드립니다|승인해 주세요|क्या मैं|कृपया मंज़ूरी दें
    هل يمكنني|هل أستطيع|أرجو الموافقة";

pub(super) const REQUESTS: &str = "
    can you|could you|would you|will you|can u|could u|can someone|could someone|can anyone|could anyone|can we
    can somebody|could somebody|can anybody|could anybody|can one of you|could one of you
    could we|would you mind|i need you to|i want you to|id like you to|i would like you to|you should|you need to
    your task|your job|todo|to do|task|assigned to you|assigning|make sure|lets
    kannst du|könntest du|können sie|könnten sie|würdest du|würden sie|könnt ihr|peux-tu|pouvez-vous|pourrais-tu
    pourriez-vous|tu peux|vous pouvez|puedes|podrías|puede|podría|pueden|você pode|pode|poderia|consegue|puoi
    potresti|può|potrebbe|potete|kun je|kan je|kunt u|kun jij|zou je|wil je|możesz|mógłbyś|mogłabyś|czy możesz
    czy mógłbyś|możecie|можешь|можете|мог бы|могла бы|не мог бы|сможешь|можеш|чи можеш|зможеш|yapabilir misin
    bakabilir misin|yapar mısın|请|請|你能|你可以|能不能|可以帮|帮我|麻烦你|麻烦|需要你|हो सके तो|क्या आप|क्या तुम
    هل يمكنك|هل تستطيع|ممكن|أريدك أن
    kann jemand|könnte jemand|ich hätte gern|ich möchte dass du|ich will dass du
    quiero que|necesito que|alguien puede|me gustaría que|j'aimerais que|je voudrais que|il faut que tu|il me faut
    quelqu'un peut|quelqu'un pourrait|我想让你|我要你|你可以帮|有人能|谁能|先给我|帮我";

pub(super) const BLOCKERS: &str = "
    blocked|i am blocked|im blocked|we are blocked|were blocked|blocker|blocking issue|i am stuck|im stuck
    we are stuck|stuck on|stuck at|i cannot proceed|i cant proceed|i cannot continue|i cant continue|cannot proceed
    cant proceed|cannot continue|cant continue|unable to proceed|unable to continue|i need input|need input
    waiting on you|im waiting on you|🚧
    blockiert|ich bin blockiert|ich komme nicht weiter|wir kommen nicht weiter|bloqué|je suis bloqué|je suis bloquée
    bloqueado|estoy bloqueado|estoy bloqueada|estou bloqueado|estou bloqueada|bloccato|sono bloccato|sono bloccata
    geblokkeerd|ik zit vast|ik kan niet verder|zablokowany|jestem zablokowany|utknąłem|utknęłam|заблокировано
    я застрял|я застряла|не могу продолжать|заблоковано|я застряг|я застрягла|не можу продовжувати|takıldım
    engellendim|devam edemiyorum|我卡住了|卡住了|被阻塞|无法继续|ブロックされています|進められません
    行き詰まりました|막혔습니다|막혔어요|진행할 수 없습니다|मैं अटक गया|मैं अटका हूँ|أنا عالق|لا أستطيع المتابعة";

pub(super) const QUESTIONS: &str = "
    what|whats|what's|why|how|hows|who|whos|whose|whom|where|wheres|when|whens|which|any idea|any ideas|any news
    any update|any updates|anyone know|anybody know|does anyone|does anybody|has anyone|is anyone|is anybody
    did anyone
    is it|is this|is that|is there|is the|is he|is she|are you|are we|are they|are there|are the|are these|are those
    was it|was this|was that|was there|was the|were you|were we|were they|were there|am i|do you|do we|do they|do i
    does it|does this|does that|does the|did you|did we|did they|did it|did the|have you|have we|have they|has it
    has the|has this|had you|will it|will this|will the|will that|would it|would that|should we|should it|can it
    could it|could this|isnt it|isnt this|arent you|dont you|didnt you|wouldnt it
    was ist|wie|warum|wieso|weshalb|wer|wo ist|wann|welche|welcher|welches|gibt es|ist das|hast du|bist du|pourquoi
    comment|quand|quel|quelle|quels|qui est|où|est-ce que|qu'est-ce|qué|por qué|cómo|cuándo|dónde|cuál|quién|o que
    por que|como|quando|onde|qual|quem|che cosa|cosa|perché|come mai|dove|quale|chi è|waarom|hoe|wanneer|waar|welke
    wie is|wat|dlaczego|jak|kiedy|gdzie|który|kto|czy|почему|как|когда|где|кто|что|зачем|сколько|чому|як|коли|де|хто
    що|навіщо|скільки|neden|nasıl|ne zaman|nerede|kim|hangi|什么|为什么|怎么|怎样|如何|谁|哪里|哪个|何时|なぜ
    どうして|どう|いつ|どこ|誰|何|왜|어떻게|언제|어디|누가|무엇|क्या|क्यों|कैसे|कब|कहाँ|कौन|لماذا|كيف|متى|أين|من هو
    ماذا|هل";

pub(super) const STATUS: &str = "
    status update|status report|progress update|fyi|for your information|for information|heads up|daily update
    weekly update|release notes|zur info|zur kenntnis|pour info|para información|para informação|per informazione
    ter info|dla informacji|для информации|для інформації|bilginize|仅供参考|ご参考まで|참고로|सूचना के लिए|للعلم";

pub(super) const HEADINGS: &str = "
    status|update|standup|stand-up|changelog|announcement|zwischenstand|statusbericht|mise à jour|actualización
    atualização|aggiornamento|aktualizacja|статус|обновление|оновлення|durum|状态|进度更新|状況|상태|स्थिति|الحالة
    تحديث";

pub(super) const IMPERATIVES: &str = "
    add|address|analyse|analyze|answer|apply|approve|archive|ask|assign|attach|audit|benchmark|build|bump|call
    change|check|clean|close|collect|compare|compile|confirm|continue|convert|copy|create|debug|decide|delete|deploy
    describe|design|disable|do|document|download|draft|edit|enable|estimate|evaluate|examine|explain|export|extract
    fetch|figure|fill|find|finish|fix|follow|format|generate|get|give|go|grab|handle|help|implement|import|improve
    inspect|install|investigate|join|keep|kill|label|list|load|look|make|measure|merge|migrate|monitor|move|open
    optimize|patch|ping|plan|post|prepare|print|propose|provide|publish|pull|push|put|read|rebase|rebuild|refactor
    release|remove|rename|render|repeat|replace|reply|report|reproduce|rerun|research|reset|resolve|respond|restart
    restore|retry|revert|review|rewrite|roll|run|save|scan|schedule|search|send|set|share|show|sign|sort|split|start
    submit|suggest|summarise|summarize|switch|take|tell|test|track|translate|triage|try|turn|undo|upgrade|upload|use
    validate|verify|wait|watch|write
    mach|macht|schreib|schreibt|prüf|prüfe|prüft|zeig|zeigt|stell|stelle|stellt|nimm|nehmt|gib|gebt|schick|schicke
    schickt|erstell|erstelle|erstellt|lösch|lösche|löscht|füg|füge|fügt|fass|sag|sagt|erinner|erinnere|starte|startet
    bau|baue|baut|änder|ändere|ändert|korrigier|korrigiere|teste|testet|such|suche|sucht|schau|schaut|hol|holt|lies
    lade|setz|setze|setzt|aktualisiere|aktualisiert|behebe|behebt|repariere|repariert|merge|richte|richtet|entfern
    entferne|entfernt|übersetz|übersetze|übersetzt|erklär|erkläre|räum|räumt|kümmer|kümmere
    haz|haced|hazme|hazlo|prepara|preparad|añade|añadid|agrega|quita|quitad|elimina|borra|crea|cread|escribe|escribid
    revisa|revisad|comprueba|comprobad|mira|mirad|actualiza|actualizad|arregla|arreglad|corrige|corregid|deshaz
    revierte|reinicia|reiniciad|arranca|arrancad|prueba|probad|ejecuta|envía|enviad|manda|dile|dime|recuérdame
    enséñame|muéstrame|explica|explícame|traduce|resume|sube|abre|cierra|cambia|cambiad|pon|poned|busca|instala
    configura|fusiona|despliega|ahora escribe|ahora haz
    fais|faites|prépare|préparez|ajoute|ajoutez|supprime|supprimez|enlève|enlevez|crée|créez|écris|écrivez|vérifie
    vérifiez|regarde|regardez|mets|mettez|corrige|corrigez|redémarre|redémarrez|relance|relancez|lance|lancez|envoie
    envoyez|montre|montrez|explique|expliquez|traduis|traduisez|résume|résumez|rappelle|rappelez|dis|dites|ouvre
    ferme|change|changez|utilise|utilisez|cherche|cherchez|installe|installez|configure|fusionne|fusionnez|teste
    testez|déploie|déployez|restaure|restaurez
    aggiungi|scrivi|controlla|verifica|mostra|prepara|crea|rimuovi|elimina|aggiorna|correggi|riavvia|invia|manda|fai
    adiciona|adicione|escreve|escreva|verifique|mostre|prepare|crie|remova|atualize|corrija|reinicie|envie|faça|faz
    schrijf|controleer|toon|maak|verwijder|stuur|herstart|voeg
    dodaj|napisz|sprawdź|pokaż|przygotuj|utwórz|usuń|zaktualizuj|popraw|uruchom|wyślij|zrób
    добавь|добавьте|напиши|напишите|проверь|проверьте|покажи|покажите|подготовь|подготовьте|создай|создайте|удали
    удалите|обнови|обновите|исправь|исправьте|перезапусти|перезапустите|отправь|отправьте|сделай|сделайте
    додай|напиши|перевір|покажи|підготуй|створи|видали|онови|виправ|перезапусти|надішли|зроби
    写|现在写|加上|添加|给上传|删除|删掉|修改|更新|修复|检查|查一下|看一下|测试|运行|部署|发布|合并|撤销|回滚|重启|启动|恢复
    创建|生成|发送|翻译|总结|整理|安装|配置|提醒|告诉|给我|把|先把|帮|改成|改一下";

/// Words that stand alone before a colon or a comma, when a person passes on news or pastes an error.
pub(super) const LABELS: &str = "
    error|errors|warning|exception|panic|fatal|failure|failed|traceback|note|notice|alert|info|news|attention
    fehler|warnung|achtung|hinweis|info|nur zur info|neuigkeiten|vorsicht
    aviso|atención|ojo|error|advertencia|te informo|te aviso|os informo|para que lo sepas|para tu información
    para vuestra información|para su información|estado
    erreur|avertissement|attention|statut|état|à savoir|pour ton information|pour votre information
    errore|avviso|attenzione|stato|erro|atenção|estado|fout|let op|waarschuwing|błąd|uwaga|ostrzeżenie
    ошибка|внимание|предупреждение|к сведению|помилка|увага|попередження|hata|dikkat|uyarı
    错误|錯誤|报错|警告|注意|通知|通知一下|提醒一下|跟你说一下|跟你说一声|告诉你一下|顺便说一下
    エラー|警告|注意|お知らせ|ちなみに|ステータス|報告|오류|에러|경고|주의|공지|알림|त्रुटि|सूचना|ध्यान दें|خطأ|تحذير|تنبيه";

pub(super) const PLEASE: &str = "
    please|pls|plz|kindly|bitte|s'il te plaît|s'il vous plaît|stp|svp|por favor|per favore|per piacere|alsjeblieft
    alstublieft|graag|proszę|пожалуйста|будь ласка|прошу|lütfen|请你|請你|ください|下さい|お願いします
    お願いいたします|頼む|부탁해|부탁해요|부탁드립니다|부탁합니다|주세요|줘|줘요|कृपया|من فضلك|لو سمحت|رجاء|أرجو";
